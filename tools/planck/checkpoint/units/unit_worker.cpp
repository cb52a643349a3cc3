#include "tools/planck/checkpoint/units/unit_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "planck/loops/cpu/portions.h"
#include "planck/ops/quantize/cpu/portions.h"
#include "planck/ops/quantize/quantize.problem.h"
#include "tools/planck/checkpoint/units/block_encoder.h"

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

QuantizationError error_of(const UnitJob& job, const View& x, const View& scale, const View& zero,
                           std::span<const std::byte> codes) {
  ErrorSum sum;
  sum.add(x.dtype, x.data,
          {.codes = codes.data(),
           .is_signed = code_dtype(job.scheme->dtype) == Dtype::s8,
           .scale = scale.data,
           .zero_point = static_cast<const std::int32_t*>(zero.data),
           .channels = job.unit.channels,
           .inner = job.unit.inner},
          job.unit.elements());
  return sum.total();
}

// Elements [first, first + n) in f32.
void as_f32(const View& x, std::int64_t first, int n, float* out) {
  if (x.dtype != Dtype::f64) return portion_ops().load_f32(x.dtype, x.data, first, 1, n, out);
  const double* in = static_cast<const double*>(x.data) + first;
  for (int i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
}

// The least and the largest finite value of each channel, and 0.
template <class C>
void range_in(const View& x, const Unit& u, std::span<double> lo, std::span<double> hi) {
  constexpr std::int64_t kRun = 1 << 16;
  const auto at = [&](std::int64_t i) {
    return Source{static_cast<const std::byte*>(x.data) +
                      static_cast<std::size_t>(i) * storage_bytes(x.dtype),
                  x.dtype};
  };
  std::vector<C> least(static_cast<std::size_t>(u.channels)), most(least.size());
  for (std::int64_t o = 0; o < u.outer; ++o) {
    const std::int64_t plane = o * u.channels * u.inner;
    if (u.inner == 1) {
      for (std::int64_t c = 0; c < u.channels; c += kRun)
        quant_sums<C>().include_each(static_cast<int>(std::min(kRun, u.channels - c)),
                                     at(plane + c), least.data() + c, most.data() + c);
      continue;
    }
    for (std::int64_t c = 0; c < u.channels; ++c)
      for (std::int64_t i = 0; i < u.inner; i += kRun)
        quant_sums<C>().include_runs(1, static_cast<int>(std::min(kRun, u.inner - i)),
                                     at(plane + c * u.inner + i), least.data() + c,
                                     most.data() + c);
  }
  std::copy(least.begin(), least.end(), lo.begin());
  std::copy(most.begin(), most.end(), hi.begin());
}

// kColumns columns of a unit, from column c on, one after the other.
constexpr std::int64_t kColumns = 16;
template <class C>
void bring_together(const C* values, const Unit& u, std::int64_t c, std::vector<C>& out) {
  const std::int64_t m = std::min(kColumns, u.channels - c);
  out.resize(static_cast<std::size_t>(m * u.outer));
  for (std::int64_t o = 0; o < u.outer; ++o)
    for (std::int64_t k = 0; k < m; ++k)
      out[static_cast<std::size_t>(k * u.outer + o)] = values[o * u.channels + k];
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

Result<View> UnitWorker::read(const UnitJob& job) {
  if (job.kept == nullptr) return read(*job.source, *job.tensor, job.unit);
  const Dtype dtype = *CheckpointSource::float_dtype(*job.tensor->type);
  std::byte* const x = job.kept + bytes_for(dtype, job.unit.first_element);
  if (!job.is_kept)
    if (auto ok = job.source->read_floats(*job.tensor, job.unit.first_element, job.unit.elements(),
                                          raw_, x);
        !ok)
      return tl::unexpected(ok.error());
  return view_of(x, dtype, shape_of(job.unit));
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
  const auto x = read(job);
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
  if (is_packed(s.dtype)) {
    sized(packed_, (u.elements() + 1) / 2);
    pack_nibbles(unit.codes.data(), u.elements(), job.bytes, packed_.data());
    unit.codes = packed_;
  } else if (job.bytes == CodeBytes::offset) {
    sized(packed_, u.elements());
    pack_bytes(unit.codes.data(), u.elements(), job.bytes, packed_.data());
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

// In pieces that stay in the first caches.
Result<QuantizedUnit> UnitWorker::encode(const UnitJob& job, const TensorEncoding& encoding) {
  constexpr std::int64_t kPiece = 2048;
  const auto x = read(job);
  if (!x) return tl::unexpected(x.error());
  const std::int64_t n = job.unit.elements();
  sized(packed_, n / encoding.elements * encoding.bytes);
  alignas(64) float values[kPiece], restored[kPiece];
  ErrorSum error;
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t m = std::min(kPiece, n - i);
    const float* in = static_cast<const float*>(x->data) + i;
    if (x->dtype != Dtype::f32) {
      as_f32(*x, i, static_cast<int>(m), values);
      in = values;
    }
    encode_blocks(encoding, in, m / encoding.elements,
                  packed_.data() + i / encoding.elements * encoding.bytes, restored);
    error.add(in, restored, m);
  }
  QuantizedUnit unit;
  unit.codes = packed_;
  unit.kernel = "cpu:blocks";
  unit.error = error.total();
  return unit;
}

Result<void> UnitWorker::add_range(const UnitJob& job, std::span<double> lo, std::span<double> hi) {
  const auto x = read(job);
  if (!x) return tl::unexpected(x.error());
  x->dtype == Dtype::f64 ? range_in<double>(*x, job.unit, lo, hi)
                         : range_in<float>(*x, job.unit, lo, hi);
  return {};
}

Result<void> UnitWorker::add_candidate_errors(const UnitJob& job,
                                              std::span<const ScaleSearch::Candidates> all,
                                              std::span<std::int64_t> errors) {
  const auto x = read(job);
  if (!x) return tl::unexpected(x.error());
  const Unit& u = job.unit;
  const ScaleSearch search = search_of(*job.scheme);
  with_finite(*x, [&](const auto* values) {
    std::vector<std::remove_cvref_t<decltype(*values)>> columns;
    for (std::int64_t c = 0; c < u.channels; ++c) {
      const auto at = static_cast<std::size_t>(c),
                 shared = static_cast<std::size_t>(u.first_channel - job.first_channel + c);
      double found[kScaleCandidates] = {};
      if (u.inner == 1) {
        if (c % kColumns == 0) bring_together(values + c, u, c, columns);
        search.add_errors(all[shared], columns.data() + c % kColumns * u.outer, u.outer, found);
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
