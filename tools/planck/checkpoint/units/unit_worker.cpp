#include "tools/planck/checkpoint/units/unit_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "planck/io/gguf/encode_blocks.h"
#include "planck/ops/quantize/quantize.problem.h"

namespace planck::cli {

namespace {

constexpr double kErrorUnits = 0x1p12;

ErasedProblem<QuantProblem> problem_of(QuantKind kind, const TensorScheme& s, Dtype element,
                                       const Unit& u) {
  const IntRange range = int_range(s.dtype);
  QuantScheme scheme{.granularity = Granularity::per_channel,
                     .axis = 1,
                     .dtype = code_dtype(s.dtype),
                     .range = range};
  QuantProblem p = scheme.problem(kind, element, Shape{u.outer, u.channels, u.inner});
  p.symmetric = s.symmetric;
  return ErasedProblem<QuantProblem>(p);
}

View view_of(const void* data, Dtype dtype, const Shape& shape) {
  return View{const_cast<void*>(data), dtype, shape, row_major(shape), true};
}
Shape shape_of(const Unit& u) { return {u.outer, u.channels, u.inner}; }

// One byte of codes each to what the file holds.
void pack(const std::byte* codes, std::int64_t count, Dtype dtype, CodeBytes how,
          std::vector<std::byte>& out) {
  const bool four = is_packed(dtype);
  const unsigned offset = how == CodeBytes::twos_complement ? 0 : four ? 8 : 128;
  out.resize(static_cast<std::size_t>(four ? (count + 1) / 2 : count));
  const auto* in = reinterpret_cast<const std::uint8_t*>(codes);
  auto* to = reinterpret_cast<std::uint8_t*>(out.data());
  if (!four) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(in[i] + offset);
    return;
  }
  for (std::int64_t i = 0; i < count / 2; ++i)
    to[i] = static_cast<std::uint8_t>(((in[2 * i] + offset) & 15) | ((in[2 * i + 1] + offset) & 15)
                                                                        << 4);
  if (count % 2 != 0) to[count / 2] = static_cast<std::uint8_t>((in[count - 1] + offset) & 15);
}

template <class C>
std::vector<C>& sized(std::vector<C>& v, std::int64_t n) {
  v.resize(static_cast<std::size_t>(n));
  return v;
}

}  // namespace

Dtype code_dtype(Dtype dtype) {
  return dtype == Dtype::s4 ? Dtype::s8 : dtype == Dtype::u4 ? Dtype::u8 : dtype;
}

void put_scale(double scale, Dtype element, std::byte* out) {
  visit_float(element, [&]<class T>(std::type_identity<T>) {
    T stored{};
    if constexpr (std::is_same_v<T, double>)
      stored = scale;
    else
      stored = T(static_cast<float>(scale));  // exact: the search rounded it
    std::memcpy(out, &stored, sizeof(T));
  });
}

ScaleSearch search_of(const TensorScheme& scheme) {
  const IntRange range = int_range(scheme.dtype);
  return {scheme.original_dtype, scheme.symmetric, range.lowest, range.highest};
}

template <class Run>
void UnitWorker::with_finite(const View& x, Run run) {
  const std::int64_t n = numel(x.shape);
  if (x.dtype == Dtype::f64) {
    const double* in = static_cast<const double*>(x.data);
    std::transform(in, in + n, sized(finite64_, n).begin(),
                   [](double v) { return v - v == 0 ? v : 0; });
    run(finite64_.data());
  } else {
    finite_values(x.dtype, x.data, n, sized(finite_, n).data());
    run(finite_.data());
  }
}

Result<View> UnitWorker::read(const CheckpointSource& source, const SourceTensor& tensor,
                              const Unit& unit) {
  const auto dtype = CheckpointSource::float_dtype(*tensor.type);
  const std::int64_t n = unit.elements();
  sized(floats_, static_cast<std::int64_t>(bytes_for(*dtype, n)));
  if (auto ok = source.read_floats(tensor, unit.first_element, n, raw_, floats_.data()); !ok)
    return tl::unexpected(ok.error());
  return view_of(floats_.data(), *dtype, shape_of(unit));
}

Result<QuantizationError> UnitWorker::error_of(const UnitJob& job, const View& x, const View& scale,
                                               const View& zero, std::span<const std::byte> codes) {
  using Back = quant_operand::Dequantize;
  Operands back;
  back[Back::q] = view_of(codes.data(), code_dtype(job.scheme->dtype), shape_of(job.unit));
  back[Back::scale] = scale;
  back[Back::zero_point] = zero;
  const auto restored =
      dequantizer_.run(problem_of(QuantKind::dequantize, *job.scheme, x.dtype, job.unit), back);
  if (!restored) return tl::unexpected(restored.error());
  return quantization_error(Stream::cpu(1), x, restored->operands[Back::x]);
}

Result<QuantizationError> UnitWorker::quantize_by(const UnitJob& job, const View& x,
                                                  const View& scale, const View& zero,
                                                  QuantizedUnit& made) {
  using Given = quant_operand::Quantize;
  Operands operands;
  operands[Given::x] = x;
  operands[Given::scale] = scale;
  operands[Given::zero_point] = zero;
  const auto done =
      quantizer_.run(problem_of(QuantKind::quantize, *job.scheme, x.dtype, job.unit), operands);
  if (!done) return tl::unexpected(done.error());
  made.kernel = done->kernel;
  made.codes = {static_cast<const std::byte*>(done->operands[Given::q].data),
                static_cast<std::size_t>(job.unit.elements())};
  return error_of(job, x, scale, zero, made.codes);
}

Result<QuantizedUnit> UnitWorker::quantize(const UnitJob& job) {
  using Dynamic = quant_operand::DynamicQuantize;
  const Unit& u = job.unit;
  const TensorScheme& s = *job.scheme;
  const auto x = read(*job.source, *job.tensor, u);
  if (!x) return tl::unexpected(x.error());
  const std::size_t width = storage_bytes(x->dtype);
  QuantizedUnit unit;
  View scale, zero;
  Result<QuantizationError> error;
  if (job.shared == nullptr && job.method == Method::rtn) {
    Operands operands;
    operands[Dynamic::x] = *x;
    const auto made =
        quantizer_.run(problem_of(QuantKind::dynamic_quantize, s, x->dtype, u), operands);
    if (!made) return tl::unexpected(made.error());
    scale = made->operands[Dynamic::scale];
    zero = made->operands[Dynamic::zero_point];
    unit.kernel = made->kernel;
    unit.codes = {static_cast<const std::byte*>(made->operands[Dynamic::q].data),
                  static_cast<std::size_t>(u.elements())};
    error = error_of(job, *x, scale, zero, unit.codes);
  } else {
    for (auto* of : {&scale_, &first_scale_})
      sized(*of, u.channels * static_cast<std::int64_t>(width));
    for (auto* of : {&zero_, &first_zero_}) sized(*of, u.channels);
    job.shared != nullptr ? take_shared(job, width) : search(job, *x, width);
    const auto scales = [&](const auto& of) { return view_of(of.data(), x->dtype, {u.channels}); };
    const auto zeros = [&](const auto& of) { return view_of(of.data(), Dtype::i32, {u.channels}); };
    if (job.method == Method::mse) {
      const auto before = quantize_by(job, *x, scales(first_scale_), zeros(first_zero_), unit);
      if (!before) return tl::unexpected(before.error());
      unit.before = *before;
    }
    scale = scales(scale_);
    zero = zeros(zero_);
    error = quantize_by(job, *x, scale, zero, unit);
    // The search does not see the last rounding, to the tensor's dtype.
    if (job.method == Method::mse && job.shared == nullptr && error &&
        error->noise > unit.before.noise) {
      scale = scales(first_scale_);
      zero = zeros(first_zero_);
      error = quantize_by(job, *x, scale, zero, unit);
    }
  }
  if (!error) return tl::unexpected(error.error());
  unit.error = *error;
  unit.scale = {static_cast<const std::byte*>(scale.data),
                static_cast<std::size_t>(u.channels) * width};
  unit.zero_point = {static_cast<const std::int32_t*>(zero.data),
                     static_cast<std::size_t>(u.channels)};
  if (is_packed(s.dtype) || job.bytes == CodeBytes::offset) {
    pack(unit.codes.data(), u.elements(), s.dtype, job.bytes, packed_);
    unit.codes = packed_;
  }
  return unit;
}

void UnitWorker::take_shared(const UnitJob& job, std::size_t width) {
  const Unit& u = job.unit;
  const std::int64_t channel = u.first_channel - job.first_channel;
  const auto first = static_cast<std::size_t>(channel);
  const SharedScales& all = *job.shared;
  std::memcpy(scale_.data(), all.scale.data() + first * width, scale_.size());
  std::copy_n(all.zero.begin() + channel, u.channels, zero_.begin());
  if (job.method == Method::rtn) return;
  std::memcpy(first_scale_.data(), all.first_scale.data() + first * width, first_scale_.size());
  std::copy_n(all.first_zero.begin() + channel, u.channels, first_zero_.begin());
}

void UnitWorker::search(const UnitJob& job, const View& x, std::size_t width) {
  const ScaleSearch by = search_of(*job.scheme);
  with_finite(x, [&](const auto* values) {
    for (std::int64_t c = 0; c < job.unit.channels; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const SearchedGroup found = by.group(values + c * job.unit.inner, job.unit.inner);
      put_scale(found.scale, x.dtype, scale_.data() + at * width);
      put_scale(found.first_scale, x.dtype, first_scale_.data() + at * width);
      zero_[at] = found.zero_point;
      first_zero_[at] = found.first_zero_point;
    }
  });
}

Result<QuantizedUnit> UnitWorker::encode(const UnitJob& job, const TensorEncoding& encoding) {
  const auto x = read(*job.source, *job.tensor, job.unit);
  if (!x) return tl::unexpected(x.error());
  const std::int64_t n = job.unit.elements(), blocks = n / encoding.elements;
  const float* values = static_cast<const float*>(x->data);
  if (x->dtype != Dtype::f32) {
    sized(finite_, n);
    visit_float(x->dtype, [&]<class T>(std::type_identity<T>) {
      const T* in = static_cast<const T*>(x->data);
      for (std::int64_t i = 0; i < n; ++i)
        finite_[static_cast<std::size_t>(i)] = static_cast<float>(in[i]);
    });
    values = finite_.data();
  }
  sized(packed_, blocks * encoding.bytes);
  find_block_encoder(encoding)(values, blocks, packed_.data());
  sized(restored_, n * 4);
  encoding.decode(packed_.data(), blocks, reinterpret_cast<float*>(restored_.data()));
  QuantizedUnit unit;
  unit.codes = packed_;
  unit.kernel = "cpu:blocks";
  unit.error = quantization_error(Stream::cpu(1), view_of(values, Dtype::f32, {n}),
                                  view_of(restored_.data(), Dtype::f32, {n}));
  return unit;
}

Result<void> UnitWorker::add_range(const UnitJob& job, std::span<double> lo, std::span<double> hi) {
  const auto x = read(*job.source, *job.tensor, job.unit);
  if (!x) return tl::unexpected(x.error());
  const Unit& u = job.unit;
  visit_float(x->dtype, [&]<class T>(std::type_identity<T>) {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const T* in = static_cast<const T*>(x->data);
    std::vector<quantize_math::DataRange<C>> ranges(static_cast<std::size_t>(u.channels),
                                                    {C(0), C(0)});
    for (std::int64_t o = 0; o < u.outer; ++o)
      for (std::int64_t c = 0; c < u.channels; ++c) {
        auto& range = ranges[static_cast<std::size_t>(c)];
        for (std::int64_t i = 0; i < u.inner; ++i)
          quantize_math::include(range, static_cast<C>(*in++));
      }
    for (std::size_t c = 0; c < ranges.size(); ++c) {
      lo[c] = static_cast<double>(ranges[c].lo);
      hi[c] = static_cast<double>(ranges[c].hi);
    }
  });
  return {};
}

Result<void> UnitWorker::add_candidate_errors(const UnitJob& job,
                                              std::span<const ScaleSearch::Candidates> all,
                                              std::span<std::int64_t> errors) {
  const auto x = read(*job.source, *job.tensor, job.unit);
  if (!x) return tl::unexpected(x.error());
  const Unit& u = job.unit;
  const ScaleSearch search = search_of(*job.scheme);
  with_finite(*x, [&](const auto* values) {
    std::vector<std::remove_cvref_t<decltype(*values)>> column;
    for (std::int64_t c = 0; c < u.channels; ++c) {
      const auto at = static_cast<std::size_t>(c),
                 shared = static_cast<std::size_t>(u.first_channel - job.first_channel + c);
      double found[kScaleCandidates] = {};
      if (u.inner == 1) {  // columns: brought together first
        column.clear();
        for (std::int64_t o = 0; o < u.outer; ++o) column.push_back(values[o * u.channels + c]);
        search.add_errors(all[shared], column.data(), u.outer, found);
      } else {
        for (std::int64_t o = 0; o < u.outer; ++o)
          search.add_errors(all[shared], values + (o * u.channels + c) * u.inner, u.inner, found);
      }
      const double unit = all[shared].scale[0] * all[shared].scale[0] / kErrorUnits;
      for (int k = 0; k < kScaleCandidates; ++k)
        errors[at * kScaleCandidates + static_cast<std::size_t>(k)] =
            std::llround(std::min(found[k] / unit, 0x1p42));
    }
  });
  return {};
}

}  // namespace planck::cli
