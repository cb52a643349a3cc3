// What UnitWorker does for tensors that are kept: as they are, or in a type that holds them
// exactly.
#include <cstring>

#include "tools/planck/checkpoint/units/unit_worker.h"

namespace planck::cli {

namespace {

template <class From, class To>
void widen_each(const std::vector<std::byte>& in, std::vector<std::byte>& out) {
  const std::size_t n = in.size() / sizeof(From);
  out.resize(n * sizeof(To));
  for (std::size_t i = 0; i < n; ++i) {
    From from{};
    std::memcpy(&from, in.data() + i * sizeof(From), sizeof(From));
    const auto to = static_cast<To>(from);
    std::memcpy(out.data() + i * sizeof(To), &to, sizeof(To));
  }
}

}  // namespace

Result<std::span<const std::byte>> UnitWorker::copy(const UnitJob& job) {
  const TensorEncoding& type = *job.tensor->type;
  floats_.resize(static_cast<std::size_t>(job.unit.elements() / type.elements * type.bytes));
  if (auto ok = job.source->read(*job.tensor, job.unit.first_element, job.unit.elements(),
                                 floats_.data());
      !ok)
    return tl::unexpected(ok.error());
  return std::span<const std::byte>(floats_);
}

Result<std::span<const std::byte>> UnitWorker::widen(const UnitJob& job) {
  const auto narrow = copy(job);
  if (!narrow || job.tensor->type->text == "BOOL") return narrow;
  if (job.tensor->type->text == "U8")
    widen_each<std::uint8_t, std::int16_t>(floats_, restored_);
  else if (job.tensor->type->text == "U16")
    widen_each<std::uint16_t, std::int32_t>(floats_, restored_);
  else
    widen_each<std::uint32_t, std::int64_t>(floats_, restored_);
  return std::span<const std::byte>(restored_);
}

Result<std::span<const std::byte>> UnitWorker::pair_blocks(const UnitJob& job,
                                                           const SourceTensor& exponents) {
  const auto nibbles = copy(job);
  if (!nibbles) return nibbles;
  const std::size_t groups = nibbles->size() / 16;
  raw_.resize(groups);
  if (auto ok = job.source->read(exponents, job.unit.first_element / 16,
                                 static_cast<std::int64_t>(groups), raw_.data());
      !ok)
    return tl::unexpected(ok.error());
  packed_.resize(17 * groups);
  for (std::size_t g = 0; g < groups; ++g) {
    const std::byte* in = nibbles->data() + 16 * g;
    std::byte* out = packed_.data() + 17 * g;
    *out++ = raw_[g];
    // Element e is in byte e / 2; GGUF has elements 0 … 15 in low nibbles, 16 … 31 in high ones.
    const auto element = [&](std::size_t e) {
      return (e % 2 == 0 ? in[e / 2] : in[e / 2] >> 4) & std::byte{15};
    };
    for (std::size_t i = 0; i < 16; ++i) out[i] = element(i) | element(i + 16) << 4;
  }
  return std::span<const std::byte>(packed_);
}

}  // namespace planck::cli
