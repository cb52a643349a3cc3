// The CUDA kernels of the quantize family against plain host loops over quantize.math.h, bit for
// bit: every kind and dtype on every loop they have, and the machine's shortcuts on all their
// inputs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "planck/core/cuda/runtime.h"
#include "planck/math/philox.h"
#include "planck/ops/quantize/cuda/cells.cuh"
#include "planck/ops/quantize/cuda/kernels.h"
#include "planck/ops/quantize/test/count_wrong.test.cuh"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

namespace qm = quantize_math;
namespace qd = quantize_device;
using verify::DeviceRun;
using verify::Fill;
using verify::HostTensor;
using verify::Layout;

// ---- reference ----

using Tensors = std::array<HostTensor, kQuantOperands>;

template <class T>
T get(const HostTensor& t, std::int64_t i) {
  return reinterpret_cast<const T*>(t.bytes.data())[i];
}
template <class T, class C>
void put(HostTensor& t, std::int64_t i, C v) {
  reinterpret_cast<T*>(t.bytes.data())[i] = T(v);
}

template <class C>
C tree(const C* a, std::int64_t n) {
  if (n == 0) return C(0);
  if (n == 1) return a[0];
  std::int64_t p = 1;
  while (2 * p < n) p *= 2;
  return tree(a, p) + tree(a + p, n - p);
}

// Outputs of a problem, from inputs in logical order.
template <class T>
void reference(const QuantProblem& p, Tensors& t) {
  using C = qd::Compute<T>;
  const auto m = p.map();
  const std::int64_t count = numel(p.shape);
  const bool reciprocal = p.math == QuantMath::reciprocal;
  const auto position = [&](C x, C s) { return reciprocal ? x * (C(1) / s) : x / s; };
  const auto group_of = [&](std::int64_t i) { return i / m.inner % m.channels; };
  const auto value = [&](int k, std::int64_t i) {
    return static_cast<C>(get<T>(t[static_cast<std::size_t>(k)], i));
  };
  const auto zero = [&](int k, std::int64_t g) {
    return get<std::int32_t>(t[static_cast<std::size_t>(k)], g);
  };
  switch (p.kind) {
    case QuantKind::quantize: {
      using O = quant_operand::Quantize;
      for (std::int64_t i = 0; i < count; ++i) {
        const C v = position(value(O::x, i), value(O::scale, group_of(i)));
        t[O::q].set_pattern(i, static_cast<std::uint64_t>(qm::quantized(
                                   v, zero(O::zero_point, group_of(i)), p.lowest(), p.highest())));
      }
      return;
    }
    case QuantKind::quantize_backward:
    case QuantKind::fake_quantize_backward: {
      using O = quant_operand::FakeQuantizeBackward;
      std::vector<std::vector<C>> terms[2];
      for (auto& each : terms) each.resize(static_cast<std::size_t>(m.channels));
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t g = group_of(i);
        const C s = value(O::scale, g), dy = value(O::dy, i), v = position(value(O::x, i), s);
        const std::int32_t z = zero(O::zero_point, g);
        const bool inside = qm::in_range(v, z, p.lowest(), p.highest());
        const bool ste = p.kind == QuantKind::quantize_backward;
        put<T>(t[O::dx], i, ste ? qm::ste(dy, s, inside) : inside ? qm::canonical(dy) : C(0));
        const C steps = qm::steps<C>(qm::quantized(v, z, p.lowest(), p.highest()), z);
        terms[0][static_cast<std::size_t>(g)].push_back(qm::scale_term(dy, v, steps, inside));
        terms[1][static_cast<std::size_t>(g)].push_back(qm::zero_point_term(dy, s, inside));
      }
      for (std::size_t g = 0; p.learnable && g < static_cast<std::size_t>(m.channels); ++g)
        for (std::size_t k = 0; k < 2; ++k)
          put<T>(t[O::dscale + k], static_cast<std::int64_t>(g),
                 qm::canonical(
                     tree(terms[k][g].data(), static_cast<std::int64_t>(terms[k][g].size()))));
      return;
    }
    case QuantKind::dequantize: {
      using O = quant_operand::Dequantize;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto q = static_cast<std::int32_t>(t[O::q].number(i));
        put<T>(t[O::x], i,
               qm::canonical(value(O::scale, group_of(i)) *
                             qm::steps<C>(q, zero(O::zero_point, group_of(i)))));
      }
      return;
    }
    case QuantKind::dequantize_backward: {
      using O = quant_operand::DequantizeBackward;
      for (std::int64_t i = 0; i < count; ++i)
        put<T>(t[O::dq], i, qm::canonical(value(O::scale, group_of(i)) * value(O::dy, i)));
      return;
    }
    case QuantKind::fake_quantize: {
      using O = quant_operand::FakeQuantize;
      for (std::int64_t i = 0; i < count; ++i) {
        const C s = value(O::scale, group_of(i)), v = position(value(O::x, i), s);
        const std::int32_t z = zero(O::zero_point, group_of(i));
        put<T>(t[O::y], i,
               qm::canonical(s * qm::steps<C>(qm::quantized(v, z, p.lowest(), p.highest()), z)));
      }
      return;
    }
    case QuantKind::dynamic_quantize: {
      using O = quant_operand::DynamicQuantize;
      std::vector<qm::DataRange<C>> range(static_cast<std::size_t>(m.channels), {C(0), C(0)});
      for (std::int64_t i = 0; i < count; ++i)
        qm::include(range[static_cast<std::size_t>(group_of(i))], value(O::x, i));
      for (std::int64_t g = 0; g < m.channels; ++g) {
        const auto& r = range[static_cast<std::size_t>(g)];
        const T s = qm::stored_scale<T>(r, p.symmetric, p.lowest(), p.highest());
        put<T>(t[O::scale], g, s);
        put<std::int32_t>(
            t[O::zero_point], g,
            qm::dynamic_zero_point(r, static_cast<C>(s), p.symmetric, p.lowest(), p.highest()));
      }
      for (std::int64_t i = 0; i < count; ++i)
        t[O::q].set_pattern(i, static_cast<std::uint64_t>(qm::quantized(
                                   value(O::x, i) / value(O::scale, group_of(i)),
                                   zero(O::zero_point, group_of(i)), p.lowest(), p.highest())));
      return;
    }
  }
}

// ---- one case ----

std::string describe(const QuantProblem& p, Fill fill, Layout layout) {
  return std::string(p.info().name) + " " + std::string(name(p.element_dtype)) + " " +
         std::string(name(p.dtype)) + " " + to_string(p.shape) + " axis=" + std::to_string(p.axis) +
         " group=" + std::to_string(p.group) +
         (p.math == QuantMath::reciprocal ? " reciprocal " : " ") +
         std::string(verify::name(fill)) + " " + std::string(verify::name(layout));
}

// Every kernel, with every operand in the given layout where it is legal.
void check(const QuantProblem& p, Fill fill, Layout layout, std::uint64_t seed) {
  SCOPED_TRACE(describe(p, fill, layout));
  ASSERT_TRUE(p.check().has_value()) << p.check().error().message;
  static const Stream stream = Stream::cuda().value();
  const auto specs = p.specs();
  const auto infos = p.info().operands;
  const bool hostile = fill == Fill::adversarial;
  Tensors tensors;
  for (std::size_t k = 0; k < infos.size(); ++k) {
    if (!specs[k].used) continue;
    HostTensor& t = tensors[k] = HostTensor(specs[k].dtype, specs[k].shape);
    if (infos[k].role == Role::output) continue;
    const bool scale = infos[k].name == "scale", zero = infos[k].name == "zero_point";
    const IntRange range = int_range(p.dtype);
    const Fill how = scale  ? (hostile ? Fill::extreme_scale : Fill::scale)
                     : zero ? (hostile && seed % 2 ? Fill::extreme_zero_point : Fill::integers)
                     : is_quantized(t.dtype) ? Fill::integers
                                             : fill;
    verify::fill(t, how, seed, k,
                 zero ? verify::FillRange{range.lowest, range.highest} : verify::FillRange{});
  }
  Tensors expected = tensors;
  visit_float(p.element_dtype,
              [&](auto type) { reference<typename decltype(type)::type>(p, expected); });

  verify::TestTensors before(infos.size());
  for (std::size_t k = 0; k < infos.size(); ++k)
    if (specs[k].used) before[k] = tensors[k];
  // Scales and zero points are counted, not laid out.
  DeviceRun how = verify::laid_out(is_broadcast(layout) ? Layout::contiguous : layout);
  how.place = [laid_out = how.place](const OperandInfo& info, const HostTensor& t) {
    const bool counted = info.name.ends_with("scale") || info.name.ends_with("zero_point");
    return counted ? verify::Placement{row_major(t.shape), 0, t.count()} : laid_out(info, t);
  };
  for (const Kernel<QuantProblem>& kernel : p.kernels()) {
    if (kernel.device != DeviceKind::cuda) continue;
    how.preference.kernel = kernel.name;
    const verify::TestTensors after = verify::after_run(stream, p, before, how);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t k = 0; k < infos.size(); ++k)
      if (before[k] && infos[k].role == Role::output)
        EXPECT_EQ(verify::bit_difference(expected[k], *after[k]), "")
            << kernel.name << " " << infos[k].name;
  }
}

// ---- cases ----

struct Where {
  const char* what;
  Shape shape;
  Granularity granularity;
  int axis = 0;
  std::int64_t group = 1;
};

const Where kWhere[] = {
    {"rows", {37, 512}, Granularity::per_channel, 0},
    {"one group with a tail", {11, 398}, Granularity::per_tensor},
    {"several chunks of one group", {9, 4096}, Granularity::per_tensor},
    {"partials on two levels", {1100, 4096}, Granularity::per_tensor},
    {"long rows", {3, 36864}, Granularity::per_token},
    {"rows of a block", {5, 8192}, Granularity::per_token},
    {"rows of a few warps", {7, 1056}, Granularity::per_token},
    {"odd rows", {9, 110}, Granularity::per_token},
    {"short groups", {13, 384}, Granularity::per_group, 0, 32},
    {"groups of three quarters of a team", {13, 384}, Granularity::per_group, 0, 96},
    {"groups of two", {5, 30}, Granularity::per_group, 0, 2},
    {"odd groups", {5, 30}, Granularity::per_group, 0, 3},
    {"columns and a few rows more", {70, 64}, Granularity::per_channel, 1},
    {"columns", {301, 272}, Granularity::per_channel, 1},
    {"few columns", {3001, 8}, Granularity::per_channel, 1},
    {"many columns", {3, 2328}, Granularity::per_channel, 1},
    {"odd columns", {40, 38}, Granularity::per_channel, 1},
    {"planes", {6, 5, 8, 16}, Granularity::per_channel, 1},
    {"odd planes", {6, 5, 7, 6}, Granularity::per_channel, 1},
    {"one axis", {1000}, Granularity::per_channel, 0},
    {"one element a group", {2, 3, 2}, Granularity::per_group, 0, 1},
    {"a pair", {2}, Granularity::per_tensor},
    {"nothing", {0, 6}, Granularity::per_channel, 1},
    {"tokens of nothing", {3, 0}, Granularity::per_token},
};

QuantProblem problem(const Where& w, QuantKind kind, Dtype element, Dtype quantized) {
  QuantProblem p;
  p.kind = kind;
  p.granularity = w.granularity;
  p.element_dtype = element;
  p.dtype = quantized;
  p.shape = w.shape;
  p.axis = w.axis;
  p.group = w.group;
  p.learnable = kind == QuantKind::fake_quantize_backward;
  return p;
}

class QuantizeCuda : public testing::TestWithParam<std::tuple<int, Dtype>> {};

TEST_P(QuantizeCuda, MatchesTheMath) {
  PLANCK_NEEDS_GPU();
  const auto [kind, element] = GetParam();
  std::uint64_t seed = 1;
  for (const Where& w : kWhere)
    for (Dtype quantized : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4}) {
      QuantProblem p = problem(w, static_cast<QuantKind>(kind), element, quantized);
      if (!p.check()) continue;  // packed outputs of an odd last extent
      const bool large = numel(w.shape) > 1000000;
      for (Fill fill : {Fill::normal, Fill::adversarial}) {
        if (large && (fill == Fill::adversarial) == (quantized == Dtype::s8)) continue;
        p.symmetric = seed % 2;
        p.math = seed % 3 == 0 ? QuantMath::reciprocal : QuantMath::divide;
        p.range = int_range(quantized);
        if (seed % 5 == 0) ++p.range->lowest;
        check(p, fill, Layout::contiguous, seed++);
        p.range = {};
        if (large) continue;
        check(p, fill, verify::kAllLayouts[1 + seed % (verify::kAllLayouts.size() - 1)], seed);
        ++seed;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeCuda,
                         testing::Combine(testing::Range(0, 7),
                                          testing::Values(Dtype::f32, Dtype::f64, Dtype::f16,
                                                          Dtype::bf16)));

// ---- more than 2^31 elements --------------------------------------------------------------

constexpr std::int64_t kWide = 8192, kTall = (std::int64_t{1} << 31) / kWide + 1;

__device__ bf16 value_of(std::int64_t i) {
  const Philox4 r = PhiloxStream{31, 1}.words(static_cast<std::uint64_t>(i) / 4);
  return bf16(uniform01(r.v[i % 4]) * 6.0f - 3.0f);
}
__device__ float scale_of(std::int64_t row) {
  return static_cast<float>(bf16(0.01f + 0.0001f * static_cast<float>(row % 97)));
}

__global__ void make_large(bf16* x, bf16* scale, std::int32_t* z) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kWide * kTall;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    x[i] = value_of(i);
    if (i >= kTall) continue;
    scale[i] = bf16(scale_of(i));
    z[i] = static_cast<std::int32_t>(i % 5);
  }
}

__global__ void check_large(unsigned long long* wrong, const std::int8_t* q, std::int64_t pitch) {
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kWide * kTall;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t row = i / kWide;
    const float v = static_cast<float>(value_of(i)) / scale_of(row);
    const auto expected = qm::quantized(v, static_cast<std::int32_t>(row % 5), -128, 127);
    if (q[row * pitch + i % kWide] != expected) atomicAdd(wrong, 1ull);
  }
}

TEST(QuantizeCudaLong, MoreThan31BitsOfElements) {
  PLANCK_NEEDS_TIME();
  const Stream stream = Stream::cuda().value();
  constexpr std::int64_t kPitch = kWide + 64;
  auto* x = static_cast<bf16*>(cuda::allocate(0, kWide * kTall * sizeof(bf16)).value());
  auto* q = static_cast<std::int8_t*>(cuda::allocate(0, kPitch * kTall).value());
  auto* scale = static_cast<bf16*>(cuda::allocate(0, kTall * sizeof(bf16)).value());
  auto* z = static_cast<std::int32_t*>(cuda::allocate(0, kTall * sizeof(std::int32_t)).value());
  make_large<<<132 * 8, 256>>>(x, scale, z);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Shape shape = {kTall, kWide};
  const QuantProblem p = problem({"", shape, Granularity::per_channel, 0}, QuantKind::quantize,
                                 Dtype::bf16, Dtype::s8);
  for (std::int64_t pitch : {kWide, kPitch}) {
    const Operands operands = {View{x, Dtype::bf16, shape, row_major(shape), true},
                               View{scale, Dtype::bf16, {kTall}, {1}, true},
                               View{z, Dtype::i32, {kTall}, {1}, true},
                               View{q, Dtype::s8, shape, {pitch, 1}, true}};
    ASSERT_TRUE(quantize_vector_cuda(stream, {}, p, operands).has_value());
    ASSERT_TRUE(stream.synchronize().has_value());
    expect_none_wrong(check_large, q, pitch);
  }
  for (void* pointer : {static_cast<void*>(x), static_cast<void*>(q), static_cast<void*>(scale),
                        static_cast<void*>(z)})
    cuda::release(0, pointer);
}

}  // namespace
}  // namespace planck
