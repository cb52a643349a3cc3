// What UnitWorker does for dequantize.
#include <algorithm>
#include <cstring>

#include "planck/io/checkpoint/narrow_floats.h"
#include "planck/ops/quantize/quantize.problem.h"
#include "tools/planck/checkpoint/units/unit_worker.h"

namespace planck::cli {

namespace {

std::span<const std::byte> bytes_of(const std::vector<std::byte>& v) { return v; }

// f32 to the dtype asked for: f32 itself, or bf16 where that is exact.
void narrow_to(const float* in, std::int64_t n, Dtype dtype, std::vector<std::byte>& out) {
  out.resize(bytes_for(dtype, n));
  if (dtype == Dtype::f32) {
    std::memcpy(out.data(), in, out.size());
    return;
  }
  auto* to = reinterpret_cast<bf16*>(out.data());
  for (std::int64_t i = 0; i < n; ++i) to[i] = bf16(in[i]);
}

}  // namespace

// Codes of elements first … first + n, a byte each, as the op wants them.
Result<void> UnitWorker::read_codes(const CheckpointSource& in, const QuantizedTensor& t,
                                    std::int64_t first, std::int64_t n) {
  const TensorScheme& s = t.scheme;
  packed_.resize(static_cast<std::size_t>(n));
  if (!is_packed(s.dtype)) return in.read(*t.q, first, n, packed_.data());
  const std::int64_t rows = s.original_shape.rank() == 0 ? 1 : s.original_shape[0];
  const std::int64_t row = numel(s.original_shape) / std::max<std::int64_t>(rows, 1);
  // Rows begin at whole bytes; rows of even length follow one another without a gap.
  const bool flat = row % 2 == 0;
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t at = first + done, column = at % row;
    const std::int64_t count = flat ? n : std::min(n - done, row - column);
    const std::int64_t nibble = flat ? at : at / row * (row + 1) + column;
    const std::int64_t begin = nibble / 2, end = (nibble + count + 1) / 2;
    raw_.resize(static_cast<std::size_t>(end - begin));
    if (auto ok = in.read(*t.q, begin, end - begin, raw_.data()); !ok) return ok;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t of = nibble + i;
      const int code =
          std::to_integer<int>(raw_[static_cast<std::size_t>(of / 2 - begin)]) >> (of % 2 * 4) & 15;
      const int signed_code = s.dtype == Dtype::s4 && code > 7 ? code - 16 : code;
      packed_[static_cast<std::size_t>(done + i)] =
          static_cast<std::byte>(static_cast<std::int8_t>(signed_code));
    }
    done += count;
  }
  return {};
}

Result<std::span<const std::byte>> UnitWorker::restore(const CheckpointSource& in,
                                                       const QuantizedTensor& t, const Unit& u) {
  using Back = quant_operand::Dequantize;
  const TensorScheme& s = t.scheme;
  if (auto ok = read_codes(in, t, u.first_element, u.elements()); !ok)
    return tl::unexpected(ok.error());
  scale_.resize(bytes_for(s.original_dtype, u.channels));
  if (auto ok = in.read(*t.scale, u.first_channel, u.channels, scale_.data()); !ok)
    return tl::unexpected(ok.error());
  zero_.assign(static_cast<std::size_t>(u.channels), t.common_zero_point());
  if (t.zero_point != nullptr)
    if (auto ok = in.read(*t.zero_point, u.first_channel, u.channels,
                          reinterpret_cast<std::byte*>(zero_.data()));
        !ok)
      return tl::unexpected(ok.error());
  const Shape shape{u.outer, u.channels, u.inner}, groups{u.channels};
  const QuantScheme scheme{
      .granularity = Granularity::per_channel, .axis = 1, .dtype = code_dtype(s.dtype)};
  const ErasedProblem<QuantProblem> problem(
      scheme.problem(QuantKind::dequantize, s.original_dtype, shape));
  Operands operands;
  operands[Back::q] = View{packed_.data(), code_dtype(s.dtype), shape, row_major(shape), true};
  operands[Back::scale] = View{scale_.data(), s.original_dtype, groups, row_major(groups), true};
  operands[Back::zero_point] = View{zero_.data(), Dtype::i32, groups, row_major(groups), true};
  const auto restored = dequantizer_.run(problem, operands);
  if (!restored) return tl::unexpected(restored.error());
  return std::span(static_cast<const std::byte*>(restored->operands[Back::x].data),
                   bytes_for(s.original_dtype, u.elements()));
}

Result<std::span<const std::byte>> UnitWorker::decode(const CheckpointSource& in,
                                                      const SourceTensor& t, Dtype dtype,
                                                      const Unit& u) {
  const auto x = read(in, t, u);
  if (!x) return tl::unexpected(x.error());
  narrow_to(static_cast<const float*>(x->data), u.elements(), dtype, restored_);
  return bytes_of(restored_);
}

Result<std::span<const std::byte>> UnitWorker::restore_pairs(const CheckpointSource& in,
                                                             const SourceTensor& blocks,
                                                             const SourceTensor& exponents,
                                                             const Unit& u) {
  raw_.resize(static_cast<std::size_t>(u.elements()));
  if (auto ok = in.read(blocks, u.first_element, u.elements(), raw_.data()); !ok)
    return tl::unexpected(ok.error());
  const std::int64_t first = u.first_element / 16,
                     last = (u.first_element + u.elements() + 15) / 16;
  packed_.resize(static_cast<std::size_t>(last - first));
  if (auto ok = in.read(exponents, first, last - first, packed_.data()); !ok)
    return tl::unexpected(ok.error());
  finite_.resize(static_cast<std::size_t>(2 * u.elements()));
  decode_f4_e2m1(raw_.data(), u.elements(), finite_.data());
  for (std::int64_t i = 0; i < 2 * u.elements(); ++i)
    finite_[static_cast<std::size_t>(i)] *= f8_e8m0_value(std::to_integer<std::uint8_t>(
        packed_[static_cast<std::size_t>((u.first_element + i / 2) / 16 - first)]));
  narrow_to(finite_.data(), 2 * u.elements(), Dtype::bf16, restored_);
  return bytes_of(restored_);
}

}  // namespace planck::cli
