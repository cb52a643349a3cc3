// Prints tensors as NumPy prints arrays, and says what does not fit one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>

#include "planck/backend/tensor.h"

namespace planck {

namespace {

constexpr std::int64_t kMostPrinted = 1000;  // elements; above, only the ends of long axes
constexpr std::int64_t kEdge = 3;
constexpr int kDigits = 8, kDigitsOfHalves = 4;

struct Elements {
  Dtype dtype;
  const void* data;

  double real(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    switch (dtype) {
      case Dtype::f64:
        return static_cast<const double*>(data)[at];
      case Dtype::f32:
        return static_cast<const float*>(data)[at];
      case Dtype::f16:
        return static_cast<double>(static_cast<float>(static_cast<const f16*>(data)[at]));
      default:
        return static_cast<double>(static_cast<float>(static_cast<const bf16*>(data)[at]));
    }
  }
  std::int64_t integer(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    const auto byte = [&](std::size_t k) { return static_cast<const std::uint8_t*>(data)[k]; };
    switch (dtype) {
      case Dtype::i64:
        return static_cast<const std::int64_t*>(data)[at];
      case Dtype::i32:
        return static_cast<const std::int32_t*>(data)[at];
      case Dtype::s8:
        return static_cast<const std::int8_t*>(data)[at];
      case Dtype::s4:
      case Dtype::u4: {
        const int nibble = byte(at / 2) >> (at % 2 * 4) & 15;
        return dtype == Dtype::s4 && nibble > 7 ? nibble - 16 : nibble;
      }
      default:
        return byte(at);
    }
  }
};

// One way of writing for all elements shown: so many decimals, or in powers of ten.
class Writer {
 public:
  Writer(const Elements& elements, const std::vector<std::int64_t>& shown) : elements_(elements) {
    if (is_float(elements.dtype)) choose_decimals(shown);
    for (std::int64_t i : shown) width_ = std::max(width_, text(i).size());
  }
  std::string padded(std::int64_t i) const { return fmt::format("{:>{}}", text(i), width_); }

 private:
  void choose_decimals(const std::vector<std::int64_t>& shown) {
    const int digits = bits(elements_.dtype) == 16 ? kDigitsOfHalves : kDigits;
    double most = 0, least = INFINITY;
    for (std::int64_t i : shown) {
      const double v = std::fabs(elements_.real(i));
      if (!std::isfinite(v) || v == 0) continue;
      most = std::max(most, v);
      least = std::min(least, v);
    }
    powers_ = most >= 1e8 || (most > 0 && (least < 1e-4 || most / least > 1e3 * 1e5));
    for (std::int64_t i : shown) {
      const double v = elements_.real(i);
      if (!std::isfinite(v)) continue;
      std::string s =
          powers_ ? fmt::format("{:.{}e}", v, digits) : fmt::format("{:.{}f}", v, digits);
      if (!powers_ && elements_.dtype == Dtype::f32) {  // no more digits than a float has
        const int whole = v == 0 ? 1 : std::max(1, static_cast<int>(std::log10(std::fabs(v))) + 1);
        s = fmt::format("{:.{}f}", v, std::clamp(digits - whole, 0, digits));
      }
      const std::size_t point = s.find('.');
      if (point == std::string::npos) continue;
      std::size_t last = powers_ ? s.find('e') : s.size();
      while (last > point + 1 && s[last - 1] == '0') --last;
      decimals_ = std::max(decimals_, static_cast<int>(last - point - 1));
    }
  }
  std::string text(std::int64_t i) const {
    if (elements_.dtype == Dtype::boolean) return elements_.integer(i) != 0 ? "true" : "false";
    if (!is_float(elements_.dtype)) return fmt::format("{}", elements_.integer(i));
    const double v = elements_.real(i);
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    if (powers_) return fmt::format("{:.{}e}", v, decimals_);
    std::string s = fmt::format("{:.{}f}", v, decimals_);
    if (decimals_ == 0) return s + ".";
    std::size_t last = s.size();
    while (s[last - 1] == '0') s[--last] = ' ';  // aligned, and no zeros that say nothing
    return s;
  }

  Elements elements_;
  bool powers_ = false;
  int decimals_ = 0;
  std::size_t width_ = 0;
};

// Positions along an axis that are printed; −1 stands for those left out.
std::vector<std::int64_t> positions(std::int64_t extent, bool shorten) {
  std::vector<std::int64_t> at;
  for (std::int64_t i = 0; i < extent; ++i) {
    if (shorten && extent > 2 * kEdge && i == kEdge) {
      at.push_back(-1);
      i = extent - kEdge;
    }
    at.push_back(i);
  }
  return at;
}

void collect(const Shape& shape, bool shorten, int axis, std::int64_t at,
             std::vector<std::int64_t>& shown) {
  if (axis == shape.rank()) return shown.push_back(at);
  for (std::int64_t i : positions(shape[axis], shorten))
    if (i >= 0) collect(shape, shorten, axis + 1, at * shape[axis] + i, shown);
}

void print(const Shape& shape, bool shorten, int axis, std::int64_t at, const Writer& writer,
           std::string& out) {
  if (axis == shape.rank()) {
    out += writer.padded(at);
    return;
  }
  out += '[';
  bool first = true;
  const int below = shape.rank() - axis - 1;
  for (std::int64_t i : positions(shape[axis], shorten)) {
    if (!first) {
      if (below == 0)
        out += ' ';
      else
        out += std::string(static_cast<std::size_t>(below), '\n') +
               std::string(static_cast<std::size_t>(axis + 1), ' ');
    }
    first = false;
    if (i < 0)
      out += "...";
    else
      print(shape, shorten, axis + 1, at * shape[axis] + i, writer, out);
  }
  out += ']';
}

}  // namespace

std::string format_elements(Dtype dtype, const Shape& shape, const void* data) {
  if (numel(shape) == 0) return fmt::format("[] {} {}", name(dtype), to_string(shape));
  const bool shorten = numel(shape) > kMostPrinted;
  std::vector<std::int64_t> shown;
  collect(shape, shorten, 0, 0, shown);
  std::string out;
  print(shape, shorten, 0, 0, Writer({dtype, data}, shown), out);
  return out;
}

namespace tensor_detail {

void check_count(std::size_t values, const Shape& shape) {
  value_or_throw(check_shape(shape, "from"));
  if (static_cast<std::int64_t>(values) != numel(shape))
    raise(ErrorCode::invalid_problem, fmt::format("from: {} values, shape {} has {} elements",
                                                  values, to_string(shape), numel(shape)));
}
void check_element(Dtype tensor, Dtype asked) {
  if (tensor != asked && !(asked == Dtype::u8 && tensor == Dtype::boolean))
    raise(ErrorCode::invalid_problem,
          fmt::format("to_vector: the tensor is {}, {} is asked for", name(tensor), name(asked)));
}
void check_single(const Shape& shape) {
  if (numel(shape) != 1)
    raise(ErrorCode::invalid_problem,
          fmt::format("item: shape {} has {} elements", to_string(shape), numel(shape)));
}
void check_axis(int axis, const Shape& shape) {
  if (axis < -shape.rank() || axis >= shape.rank())
    raise(ErrorCode::invalid_problem, fmt::format("extent: axis is {}, shape {} has rank {}", axis,
                                                  to_string(shape), shape.rank()));
}
void check_kind(std::string_view function, std::string_view kind, Dtype dtype) {
  const bool fits = kind == FloatKind::name  ? is_float(dtype)
                    : kind == BoolKind::name ? dtype == Dtype::boolean
                                             : !is_float(dtype) && dtype != Dtype::boolean;
  if (!fits)
    raise(ErrorCode::invalid_problem,
          fmt::format("{}: dtype is {}, a tensor of kind {} cannot hold it", function, name(dtype),
                      kind));
}
void check_aligned(const void* data, Dtype dtype) {
  if (reinterpret_cast<std::uintptr_t>(data) % storage_bytes(dtype) != 0)
    raise(ErrorCode::misaligned_operand,
          fmt::format("from_blob: the address {} is no multiple of {} bytes, the size of {}",
                      fmt::ptr(data), storage_bytes(dtype), name(dtype)));
}
bool same_place(const Stream& a, const Stream& b) {
  return a.device() == b.device() && a.native() == b.native() && a.threads() == b.threads();
}
void refuse_tracked_move() {
  raise(ErrorCode::not_differentiable,
        "to: gradients do not pass from one device to another; detach() the tensor first");
}
std::ostream& print(std::ostream& out, const std::string& text) { return out << text; }

}  // namespace tensor_detail

}  // namespace planck
