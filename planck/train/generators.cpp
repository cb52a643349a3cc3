#include "planck/train/generators.h"

#include <algorithm>

#include "planck/backend/staging.h"

namespace planck::train::detail {

namespace {

std::vector<Rng*> generators_of(const nn::PartList& parts) {
  std::vector<Rng*> all;
  parts.for_each<Rng>([&](const std::string&, Rng& rng) { all.push_back(&rng); });
  return all;
}
bool alike(const Rng& a, const Rng& b) { return a.seed == b.seed && a.offset == b.offset; }

}  // namespace

GeneratorsBefore::GeneratorsBefore(const nn::PartList& parts) {
  for (Rng* rng : generators_of(parts)) all_.emplace_back(rng, *rng);
}
bool GeneratorsBefore::others_drew() const {
  return Rng::draws_of_this_thread != draws_ &&
         std::ranges::all_of(all_, [](const auto& a) { return alike(*a.first, a.second); });
}
void GeneratorsBefore::put_back() const {
  for (const auto& [rng, before] : all_) *rng = before;
}

Generators::Generators(const nn::PartList& parts, const Stream& stream) {
  for (const Rng* rng : generators_of(parts)) first_.push_back(*rng);
  moved_.resize(first_.size());
  if (!first_.empty())
    now_ = StoredView::empty(stream, Dtype::i64, {2 * static_cast<std::int64_t>(first_.size())});
}

std::vector<Recording::Generator> Generators::places() const {
  std::vector<Recording::Generator> all;
  for (std::size_t i = 0; i < first_.size(); ++i)
    all.push_back({first_[i].seed, first_[i].offset,
                   static_cast<const std::uint64_t*>(now_->view.data) + 2 * i});
  return all;
}

void Generators::finish(const nn::PartList& parts, const Recording& recording,
                        std::uint64_t draws) {
  if (recording.draws() != draws)
    raise(
        ErrorCode::unsupported,
        "the step draws random numbers that are no kernel's, or of a generator that is no part of "
        "the model");
  const auto all = generators_of(parts);
  for (std::size_t i = 0; i < all.size(); ++i) {
    moved_[i] = all[i]->offset - first_[i].offset;
    for (std::size_t k = 0; k < i; ++k)
      if (alike(first_[i], first_[k]) && moved_[i] != moved_[k])
        raise(ErrorCode::unsupported, "two generators that are alike draw differently");
  }
}

bool Generators::fit(const nn::PartList& parts) const {
  const auto all = generators_of(parts);
  if (all.size() != first_.size()) return false;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (alike(first_[i], first_[k]) && !alike(*all[i], *all[k])) return false;
  return true;
}

void Generators::advance(const nn::PartList& parts) const {
  if (std::ranges::all_of(moved_, [](std::uint64_t n) { return n == 0; })) return;
  std::vector<std::uint64_t> words;
  const auto all = generators_of(parts);
  for (std::size_t i = 0; i < all.size(); ++i) {
    words.push_back(all[i]->seed);
    words.push_back(all[i]->offset);
    all[i]->offset += moved_[i];
  }
  backend_detail::copy_from_host(now_->stream(), now_->view.data, words.data(),
                                 words.size() * sizeof words[0]);
}

}  // namespace planck::train::detail
