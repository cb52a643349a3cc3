// The CUDA kernels of the elementwise family: every way of reading against the CPU's bits, capture
// in a CUDA graph, and more than 2^31 elements.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/owned_tensor.h"
#include "planck/ops/elementwise/elementwise.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

using verify::Fill;
using verify::HostTensor;
using Op = ElementwiseOp;

// How a tensor of a problem's shape lies in a buffer of its own.
enum class Way { dense, offset, row, column, transposed, flipped, sparse };
constexpr Way kInputWays[] = {Way::dense,      Way::offset,  Way::row,   Way::column,
                              Way::transposed, Way::flipped, Way::sparse};

// Elements of the buffer, the first one's place, and strides.
struct Place {
  std::int64_t count, first;
  Strides strides;
};
Place place_of(const Shape& shape, Way way) {
  const std::int64_t n = numel(shape);
  const int r = shape.rank();
  Place p{n + 8, 0, row_major(shape)};
  if (way == Way::offset) p.first = 3;  // no multiple of 16 bytes, whatever the dtype
  if (way == Way::row)
    for (int d = 0; d + 1 < r; ++d) p.strides[d] = 0;
  if (way == Way::column) {
    Shape rest = shape;
    rest[r - 1] = 1;
    p.strides = row_major(rest);
    p.strides[r - 1] = 0;
  }
  if (way == Way::transposed) {
    Shape swapped = shape;
    std::swap(swapped[0], swapped[r - 1]);
    p.strides = row_major(swapped);
    std::swap(p.strides[0], p.strides[r - 1]);
  }
  if (way == Way::flipped) {
    p.first = n - 1;
    for (int d = 0; d < r; ++d) p.strides[d] = -p.strides[d];
  }
  if (way == Way::sparse) {
    p.count = 2 * n + 8;
    for (int d = 0; d < r; ++d) p.strides[d] *= 2;
  }
  return p;
}

OwnedTensor values(Dtype dtype, std::int64_t count, Fill fill, std::uint64_t seed) {
  HostTensor made(dtype, {count});
  verify::fill(made, fill, seed, 0);
  auto t = OwnedTensor::empty(Stream::cpu(), dtype, {count});
  EXPECT_TRUE(t);
  std::copy(made.bytes.begin(), made.bytes.end(), t->as<std::byte>());
  return std::move(*t);
}
View view_of(const OwnedTensor& buffer, const Shape& shape, const Place& place) {
  auto* data = buffer.as<std::byte>() +
               place.first * static_cast<std::int64_t>(storage_bytes(buffer.dtype()));
  return {data, buffer.dtype(), shape, place.strides, true};
}

// Whole buffers are compared: what lies between and behind the elements stays as it was.
void expect_cpu_bits(const ElementwiseProblem& p, Way a, Way b, Way y, Fill fill) {
  const Stream host = Stream::cpu();
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  const auto specs = p.specs();
  const int operands = p.inputs() + 1;
  Operands here, there;
  std::vector<OwnedTensor> ours, theirs;
  for (int k = 0; k < operands; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const Place place = place_of(p.shape, k + 1 == operands ? y : k == 0 ? a : b);
    const Dtype dtype = specs[i].dtype;
    const Fill how = is_float(dtype) ? fill : Fill::integers;
    ours.push_back(values(dtype, place.count, how, 7 + static_cast<std::uint64_t>(k)));
    auto copy = ours.back().to(host, *stream);
    ASSERT_TRUE(copy);
    theirs.push_back(std::move(*copy));
    here[i] = view_of(ours.back(), p.shape, place);
    there[i] = view_of(theirs.back(), p.shape, place);
  }
  const auto on_cpu = ElementwisePlan::select(host, p),
             on_cuda = ElementwisePlan::select(*stream, p);
  ASSERT_TRUE(on_cpu && on_cuda);
  ASSERT_TRUE(on_cpu->run(host, {}, here));
  ASSERT_TRUE(on_cuda->run(*stream, {}, there));
  const auto got = theirs.back().to(*stream, host);
  ASSERT_TRUE(got);
  EXPECT_EQ(std::memcmp(got->data(), ours.back().data(), got->bytes()), 0)
      << p.info().name << " " << name(p.dtype) << " " << to_string(p.shape) << " ways "
      << static_cast<int>(a) << static_cast<int>(b) << static_cast<int>(y);
}

constexpr Dtype kFloats[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16};

TEST(ElementwiseCuda, EveryFloatOpGivesTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  for (int op = 0; op <= static_cast<int>(Op::ge); ++op)
    for (const Dtype dtype : kFloats)
      for (const Fill fill : {Fill::normal, Fill::scale, Fill::adversarial}) {
        const ElementwiseProblem p{
            .op = static_cast<Op>(op), .dtype = dtype, .shape = {5003}, .scalars = {0.3, 1.7}};
        expect_cpu_bits(p, Way::dense, Way::dense, Way::dense, fill);
      }
}

// Tails, unaligned starts, broadcasts, transposes: one, two and three inputs.
TEST(ElementwiseCuda, EveryWayOfReadingGivesTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Shape shapes[] = {{1}, {7}, {4096}, {4099}, {33, 257}, {40, 512}, {3, 5, 64}, {6, 1, 9, 8}};
  for (const Dtype dtype :
       {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::i64})
    for (const Shape& shape : shapes)
      for (const Way a : kInputWays)
        for (const Way b : {Way::dense, Way::row, Way::column, Way::transposed}) {
          for (const Op op : {Op::relu, Op::add, Op::where, Op::lt}) {
            if (op == Op::relu && b != Way::dense) continue;
            const ElementwiseProblem p{.op = op, .dtype = dtype, .shape = shape};
            expect_cpu_bits(p, a, b, Way::dense, Fill::normal);
          }
          if (b != Way::dense) continue;
          for (const Way y : {Way::offset, Way::transposed, Way::flipped, Way::sparse})
            expect_cpu_bits({.op = Op::mul, .dtype = dtype, .shape = shape}, a, b, y, Fill::normal);
        }
}

TEST(ElementwiseCuda, PowOfAPackWithUnusualArguments) {
  PLANCK_NEEDS_GPU();
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16})
    for (const Shape& shape : {Shape{1 << 16}, Shape{64, 1024}})
      for (const Fill fill : {Fill::normal, Fill::scale, Fill::extreme_scale, Fill::adversarial})
        for (const Way b : {Way::dense, Way::row, Way::column})
          expect_cpu_bits({.op = Op::pow, .dtype = dtype, .shape = shape}, Way::dense, b,
                          Way::dense, fill);
}

TEST(ElementwiseCuda, RunsInsideAGraph) {
  PLANCK_NEEDS_GPU();
  const Stream host = Stream::cpu();
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  const Shape shape = {100, 256};
  const ElementwiseProblem add{.op = Op::add, .dtype = Dtype::f32, .shape = shape},
      tanh{.op = Op::tanh, .dtype = Dtype::f32, .shape = shape};
  const OwnedTensor a = values(Dtype::f32, numel(shape), Fill::normal, 1),
                    b = values(Dtype::f32, numel(shape), Fill::normal, 2),
                    sum = values(Dtype::f32, numel(shape), Fill::zeros, 3);
  const auto there_a = a.to(host, *stream), there_b = b.to(host, *stream),
             there_sum = sum.to(host, *stream);
  ASSERT_TRUE(there_a && there_b && there_sum);
  const auto row = [&](const OwnedTensor& t) {
    return view_of(t, shape, place_of(shape, Way::row));
  };
  const auto dense = [&](const OwnedTensor& t) {
    return view_of(t, shape, place_of(shape, Way::dense));
  };
  const auto sums = ElementwisePlan::select(*stream, add),
             curves = ElementwisePlan::select(*stream, tanh);
  ASSERT_TRUE(sums && curves);

  const auto native = static_cast<cudaStream_t>(stream->native());
  cudaGraph_t graph;
  cudaGraphExec_t captured;
  ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const auto first = sums->run(
      *stream, {}, elementwise_operands({dense(*there_a), row(*there_b), dense(*there_sum)}));
  const auto second =  // in place
      curves->run(*stream, {}, elementwise_operands({dense(*there_sum), dense(*there_sum)}));
  ASSERT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
  ASSERT_TRUE(first && second);
  ASSERT_EQ(cudaGraphInstantiate(&captured, graph, 0), cudaSuccess);
  for (int launches = 0; launches < 2; ++launches)
    ASSERT_EQ(cudaGraphLaunch(captured, native), cudaSuccess);
  const auto got = there_sum->to(*stream, host);
  EXPECT_EQ(cudaGraphExecDestroy(captured), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);

  const auto cpu_sums = ElementwisePlan::select(host, add),
             cpu_curves = ElementwisePlan::select(host, tanh);
  ASSERT_TRUE(got && cpu_sums && cpu_curves);
  ASSERT_TRUE(cpu_sums->run(host, {}, elementwise_operands({dense(a), row(b), dense(sum)})));
  ASSERT_TRUE(cpu_curves->run(host, {}, elementwise_operands({dense(sum), dense(sum)})));
  EXPECT_EQ(std::memcmp(got->data(), sum.data(), got->bytes()), 0);
}

// The first and the last rows of [kRows, kWidth] hold numbers, and are what the CPU makes of them.
void expect_ends(Op op, Way b_way) {
  constexpr std::int64_t kWidth = 1 << 12, kRows = (std::int64_t{1} << 31) / kWidth + 3, kEnd = 2;
  const Stream host = Stream::cpu();
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  const Shape whole = {kRows, kWidth}, end = {kEnd, kWidth};
  const ElementwiseProblem p{.op = op, .dtype = Dtype::bf16, .shape = whole},
      small{.op = op, .dtype = Dtype::bf16, .shape = end};
  const OwnedTensor part = values(Dtype::bf16, numel(end), Fill::normal, 1),
                    b = values(Dtype::bf16, numel(end), Fill::normal, 2),
                    expected = values(Dtype::bf16, numel(end), Fill::zeros, 3);
  const auto in = OwnedTensor::empty(*stream, Dtype::bf16, whole),
             out = OwnedTensor::empty(*stream, Dtype::bf16, whole), there_b = b.to(host, *stream);
  ASSERT_TRUE(in && out && there_b);
  constexpr std::int64_t kRowBytes = kWidth * 2;
  for (const std::int64_t row : {std::int64_t{0}, kRows - kEnd})
    ASSERT_TRUE(cuda::copy_to_device(0, stream->native(), in->as<std::byte>() + row * kRowBytes,
                                     part.data(), part.bytes()));
  // b is a row, or the same tensor again.
  const auto operands_of = [&](const OwnedTensor& x, const OwnedTensor& second,
                               const OwnedTensor& y, const Shape& shape) {
    const View dense = view_of(x, shape, {0, 0, row_major(shape)}),
               to = view_of(y, shape, {0, 0, row_major(shape)});
    if (op == Op::relu) return elementwise_operands({dense, to});
    if (b_way == Way::dense) return elementwise_operands({dense, dense, to});
    return elementwise_operands({dense, view_of(second, shape, {0, 0, {0, 1}}), to});
  };
  const auto on_cpu = ElementwisePlan::select(host, small),
             on_cuda = ElementwisePlan::select(*stream, p);
  ASSERT_TRUE(on_cpu && on_cuda);
  ASSERT_TRUE(on_cpu->run(host, {}, operands_of(part, b, expected, end)));
  ASSERT_TRUE(on_cuda->run(*stream, {}, operands_of(*in, *there_b, *out, whole)));
  std::vector<std::byte> got(part.bytes());
  for (const std::int64_t row : {std::int64_t{0}, kRows - kEnd}) {
    ASSERT_TRUE(cuda::copy_to_host(0, stream->native(), got.data(),
                                   out->as<std::byte>() + row * kRowBytes, got.size()));
    ASSERT_TRUE(stream->synchronize());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0) << row;
  }
}

TEST(ElementwiseCudaLong, Past2To31Elements) {
  PLANCK_NEEDS_TIME();
  expect_ends(Op::relu, Way::dense);
  expect_ends(Op::add, Way::dense);
  expect_ends(Op::add, Way::row);
}

}  // namespace
}  // namespace planck
