// Memory of others: from_blob, DLPack both ways, {fmt}.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "planck/backend/dlpack.h"
#include "planck/backend/fmt.h"
#include "planck/planck.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;

template <class Fn>
std::string refusal(Fn&& fn) {
  try {
    (void)fn();
  } catch (const Exception& e) {
    return e.what();
  }
  return "";
}

TEST(Blob, IsSeenWithoutACopyAndNeverWrittenTo) {
  F memory = {1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    auto x = Tensor<Cpu>::from_blob(
        memory.data(), {2, 3}, std::shared_ptr<void>(memory.data(), [&](void*) { ++released; }));
    EXPECT_EQ(x.primitive().view.data, memory.data());
    const auto y = transpose(x)[0];  // holds the memory too
    auto z = std::move(x) + 1;       // a temporary's own memory would be the result's
    z += 1;
    EXPECT_NE(z.primitive().view.data, memory.data());
    EXPECT_EQ(memory, F({1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(y.to_vector<float>(), F({1, 4}));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  const auto tracked = Tensor<A>::from_blob(memory.data(), {6}).require_grad();
  EXPECT_EQ(tracked.grad(sum(tracked * tracked).backward())->to_vector<float>(),
            F({2, 4, 6, 8, 10, 12}));
  const std::vector<std::int64_t> ids = {3, 1};
  const auto view = Tensor<Cpu, IntKind>::from_blob(ids.data(), {2});
  EXPECT_EQ(view.dtype(), Dtype::i64);
}

TEST(Blob, RefusesMisalignedMemory) {
  alignas(8) std::byte bytes[16] = {};
  const auto* odd = reinterpret_cast<const float*>(bytes + 1);
  EXPECT_NE(refusal([&] { return Tensor<Cpu>::from_blob(odd, {2}); }).find("multiple of 4 bytes"),
            std::string::npos);
}

// Another library's tensor: counts how often it is let go.
template <class Managed>
struct Foreign {
  std::vector<float> elements = {0, 1, 2, 3, 4, 5, 6, 7};
  std::int64_t shape[3] = {2, 3, 1}, strides[3] = {1, 2, 5};
  int deleted = 0;
  Managed managed{};

  Foreign() {
    managed.tensor = {elements.data(),
                      {dlpack::cpu, 0},
                      2,
                      {dlpack::floating, 32, 1},
                      shape,
                      static_cast<std::int64_t*>(strides),
                      4};
    managed.context = this;
    managed.deleter = [](Managed* m) { ++static_cast<Foreign*>(m->context)->deleted; };
    if constexpr (requires { managed.version; }) managed.version = {1, 1};
  }
};

template <class Managed>
void check_import() {
  Foreign<Managed> other;
  {
    const auto x = from_dlpack<Cpu>(&other.managed);
    EXPECT_EQ(x.shape(), (Shape{2, 3}));
    EXPECT_EQ(x.template to_vector<float>(),
              F({1, 3, 5, 2, 4, 6}));  // strides 1 and 2 from element 1
    const auto y = x[0];
    EXPECT_EQ(other.deleted, 0);
  }
  EXPECT_EQ(other.deleted, 1);
  other.managed.tensor.strides = nullptr;  // row-major
  EXPECT_EQ(from_dlpack<A>(&other.managed).inner().template to_vector<float>(),
            F({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(other.deleted, 2);
  other.managed.deleter = nullptr;
  (void)from_dlpack<Cpu>(&other.managed);

  // What is refused stays the caller's.
  Foreign<Managed> wrong;
  const auto refused = [&](auto change) {
    wrong = Foreign<Managed>();
    wrong.managed.tensor.shape = wrong.shape;
    wrong.managed.tensor.strides = wrong.strides;
    wrong.managed.tensor.data = wrong.elements.data();
    wrong.managed.context = &wrong;
    change(wrong.managed.tensor);
    const std::string text = refusal([&] { return from_dlpack<Cpu>(&wrong.managed); });
    EXPECT_EQ(wrong.deleted, 0) << text;
    return text;
  };
  using dlpack::Tensor;
  EXPECT_EQ(refused([](Tensor& t) {
              t.type = {dlpack::unsigned_int, 16, 1};
            }),
            "from_dlpack: elements of code 1, 16 bits and 1 lanes are none of Planck's dtypes");
  EXPECT_EQ(refused([](Tensor& t) { t.type.lanes = 4; }),
            "from_dlpack: elements of code 2, 32 bits and 4 lanes are none of Planck's dtypes");
  EXPECT_EQ(refused([](Tensor& t) {
              t.type = {dlpack::signed_int, 32, 1};
            }),
            "from_dlpack: dtype is i32, a tensor of kind float cannot hold it");
  EXPECT_EQ(refused([](Tensor& t) {
              t.device = {10, 0};
            }),
            "from_dlpack: device type 10 is neither CPU nor CUDA");
  EXPECT_EQ(refused([](Tensor& t) {
              t.device = {dlpack::cuda, 1};
            }),
            "from_dlpack: the memory is on cuda:1, the tensor is wanted on cpu");
  EXPECT_EQ(refused([](Tensor& t) { t.rank = 9; }), "from_dlpack: 9 axes, at most 8");
  EXPECT_NE(refused([](Tensor& t) { t.byte_offset = 2; }), "");
  EXPECT_NE(refused([](Tensor& t) { t.shape[0] = -1; }), "");
}
TEST(DlPack, TakesTensorsOfOthers) {
  check_import<dlpack::ManagedTensorVersioned>();
  check_import<dlpack::ManagedTensor>();
  Foreign<dlpack::ManagedTensorVersioned> late;
  late.managed.version = {2, 0};
  EXPECT_EQ(refusal([&] { return from_dlpack<Cpu>(&late.managed); }),
            "from_dlpack: version 2.0, 1.x is known");
}

TEST(DlPack, GivesTensorsToOthers) {
  const auto x = Tensor<Cpu>::from({1, 2, 3, 4, 5, 6}, {2, 3});
  auto* shared = to_dlpack(transpose(x));
  EXPECT_EQ(shared->version.major, 1u);
  EXPECT_EQ(shared->flags, dlpack::kReadOnly);
  EXPECT_EQ(shared->tensor.data, x.primitive().view.data);
  EXPECT_EQ(shared->tensor.rank, 2);
  EXPECT_EQ(shared->tensor.shape[0], 3);
  EXPECT_EQ(shared->tensor.strides[0], 1);
  EXPECT_EQ(shared->tensor.strides[1], 3);
  EXPECT_EQ(shared->tensor.device.type, dlpack::cpu);
  EXPECT_FALSE(x.primitive().storage->unique());
  shared->deleter(shared);
  EXPECT_TRUE(x.primitive().storage->unique());

  auto* copied = to_dlpack(x, true);
  EXPECT_EQ(copied->flags, dlpack::kIsCopied);
  EXPECT_NE(copied->tensor.data, x.primitive().view.data);
  copied->deleter(copied);
  auto* old = to_dlpack_unversioned(x);  // it cannot say that elements must not change
  EXPECT_NE(old->tensor.data, x.primitive().view.data);
  EXPECT_EQ(static_cast<const float*>(old->tensor.data)[5], 6);
  old->deleter(old);
}

TEST(DlPack, ComesBackAsItWas) {
  const auto round = [](const auto& x) {
    using T = std::remove_cvref_t<decltype(x)>;
    const auto y = from_dlpack<Cpu, typename T::Kind>(to_dlpack(x));
    EXPECT_EQ(y.dtype(), x.dtype());
    EXPECT_EQ(y.to_string_of_elements(), x.to_string_of_elements());
  };
  for (Dtype t : kFloatDtypes) round(linspace<Cpu>(-2, 3, 7, t));
  for (Dtype t : {Dtype::i64, Dtype::i32, Dtype::s8, Dtype::u8}) round(arange<Cpu>(5).to(t));
  round(arange<Cpu>(5) > 2);
  round(zeros<Cpu>({0, 3}));
  round(Tensor<Cpu>::scalar(0.5));
}

TEST(DlPack, RefusesWhatItCannotSay) {
  const auto x = Tensor<A>::from({1, 2}, {2}).require_grad();
  EXPECT_EQ(refusal([&] { return to_dlpack(x); }),
            "to_dlpack: gradients do not pass to other libraries; detach() the tensor first");
  auto* detached = to_dlpack(x.detach());
  detached->deleter(detached);
  const auto packed = dynamic_quantize(ones<Cpu>({2, 4}),
                                       {.granularity = Granularity::per_token, .dtype = Dtype::s4});
  EXPECT_EQ(refusal([&] { return to_dlpack(packed.values()); }).substr(0, 31),
            "to_dlpack: s4 is packed two to ");
}

TEST(Fmt, PrintsAsStreamsDo) {
  const auto x = Tensor<Cpu>::from({1, 2.5, -3, 100}, {2, 2});
  std::ostringstream out;
  out << x;
  EXPECT_EQ(fmt::format("{}", x), out.str());
  EXPECT_EQ(fmt::format("{:>6}|", arange<Cpu>(2)), " [0 1]|");
}

}  // namespace
}  // namespace planck
