// DataParallel's functions, which data_parallel.h includes. data_parallel.cpp compiles them for the
// library's backends; for others, and for Cuda beside a library without it, the program does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>

#include "planck/backend/planned.h"
#include "planck/dist/data_parallel.h"

namespace planck::dist {

namespace detail {
// A slot's elements in a bucket: the tensor's, or zeros.
void put(const Stream& place, const Stream& model, void* to, const Slot& slot,
         const StoredView* from);
// A tensor of the model that holds a copy of a slot's sum.
StoredView taken(const Stream& place, const Stream& model, const Slot& slot, const void* sum);
// Of sums [rows, width + 1], whose last column says how many grains have read a row: the rows that
// one has, or all of them; without that column.
struct TakenRows {
  std::vector<std::int64_t> index;
  std::vector<float> values;  // [index.size(), width]
};
TakenRows taken_rows(const float* sums, std::int64_t rows, std::int64_t width, bool all);
inline Dtype summed_in(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
// Of workers with other dtypes or other products, whose sums would be neither's.
inline std::int64_t kind_of(Dtype dtype, ProductMath math) {
  return static_cast<std::int64_t>(dtype) + 256 * static_cast<std::int64_t>(math);
}
template <class T>
const void* where(const T& tensor) {
  return tensor.primitive().view.data;
}
}  // namespace detail

template <class A>
DataParallel<A>::DataParallel(Communicator& workers, const DataParallelOptions& options)
    : workers_(workers),
      options_(options),
      buckets_(workers, options.bucket_bytes, options.overlap,
               workers.stream().device().kind == DeviceKind::cpu ? add_on_host : add_by_plan),
      nanoseconds_(options.balance ? static_cast<std::size_t>(workers.size()) : 0) {}

template <class A>
DataParallel<A>::~DataParallel() {
  Meeting::grains_run_apart(false);
  (void)stream_.synchronize();  // it may still read sums
}

// Slots: parameters from the last one, whose gradients are found first, then buffers: few numbers,
// which are known before backward, and for which nobody is to wait meanwhile. The loss has subtrees
// like a slot behind them, and goes with what finish() sends.
template <class A>
void DataParallel<A>::begin(const nn::PartList& parts, std::int64_t grains) {
  meets_ = false;  // of a round that was not finished
  Meeting::grains_run_apart(false);
  if (nanoseconds_.empty())
    grains_.emplace(grains, workers_.size());
  else
    grains_.emplace(balanced(grains, nanoseconds_));
  began_ = std::chrono::steady_clock::now();
  slots_.clear();
  buffers_.clear(), integers_.clear(), generators_.clear(), parameters_.clear();
  parts.for_each<nn::Buffer<A>>(
      [&](const std::string&, nn::Buffer<A>& b) { buffers_.emplace_back(&b, b.value); });
  parts.for_each<nn::IntBuffer<A>>([&](const std::string&, nn::IntBuffer<A>& b) {
    integers_.emplace_back(&b, detail::where(b.value));
  });
  parts.for_each<Rng>([&](const std::string&, Rng& rng) { generators_.emplace_back(&rng, rng); });
  parts.for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
    if (p.requires_grad()) parameters_.push_back({path, &p});
  });
  std::reverse(parameters_.begin(), parameters_.end());
  for (Parameter& p : parameters_) {
    p.slot = slots_.size();
    p.hooks = p.all_hooks().size();
    const auto& tensor = **p.parameter;
    const bool named = std::find(options_.by_rows.begin(), options_.by_rows.end(), p.path) !=
                       options_.by_rows.end();
    const bool by_rows = named && tensor.rank() == 2 && tensor.dtype() != Dtype::f64;
    Shape shape = tensor.shape();
    if (by_rows) ++shape[1];  // with_readers
    slots_.push_back(
        {detail::summed_in(tensor.dtype()), shape, by_rows,
         detail::kind_of(tensor.dtype(), tensor.device().product_math(tensor.dtype()))});
    p.early = !named;
  }
  first_buffer_ = slots_.size();
  for (const auto& [buffer, value] : buffers_)
    slots_.push_back({detail::summed_in(value.dtype()), value.shape(), false,
                      static_cast<std::int64_t>(value.dtype())});
  for (const std::string& path : options_.by_rows)
    if (std::none_of(parameters_.begin(), parameters_.end(),
                     [&](const Parameter& p) { return p.path == path; }))
      refuse("data_parallel: by_rows names {}, the model has no such parameter", {path});
  changed_.assign(buffers_.size(), false);
  subtrees_.assign(slots_.size() + 1, {});
  completed_.assign(slots_.size(), false);
  buckets_.begin(*grains_, slots_);
  if (!parameters_.empty()) stream_ = (*parameters_[0].parameter)->device();
  if (const Device summed = workers_.stream().device();
      summed.kind != DeviceKind::cpu && summed != stream_.device())
    refuse("data_parallel: the model is on {}, and its gradients would be summed on {}",
           {to_string(stream_.device()), to_string(summed)});
}

// Behind all others that a leaf has: what is sent is what they leave.
template <class A>
void DataParallel<A>::add_hooks() {
  for (const Parameter& p : parameters_)
    if (p.early)
      A::add_hook((*p.parameter)->primitive(),
                  [this, slot = p.slot](const typename B::FloatTensor& g) {
                    if (!completed_[slot]) {
                      give(slot, Tensor<B>(g));
                      complete(slot);
                    }
                    return g;
                  });
}
template <class A>
void DataParallel<A>::drop_hooks() {
  for (const Parameter& p : parameters_)
    p.all_hooks().erase(p.first_own_hook(), p.all_hooks().end());
}

// Layers that meet need all of this worker's grains in memory, one thread each; generators, buffers
// and hooks are the model's, so that each grain takes its own along.
template <class A>
void DataParallel<A>::together(const std::function<Tensor<A>(std::int64_t)>& loss) {
  struct Kept {
    std::vector<Rng> generators;
    std::vector<Tensor<B>> buffers;
    std::vector<std::vector<typename Leaf<B>::Hook>> hooks;
  };
  std::map<std::int64_t, Kept> kept;
  if (!meeting_) meeting_ = std::make_unique<Meeting>(workers_);
  meets_ = true;
  meeting_->run(*grains_, {.run =
                               [&](std::int64_t grain) {
                                 enter(grain);
                                 add(loss(grain));
                               },
                           .pauses =
                               [&](std::int64_t grain) {
                                 Kept& k = kept[grain] = {};
                                 for (const auto& [rng, before] : generators_)
                                   k.generators.push_back(*rng);
                                 for (const auto& [buffer, before] : buffers_)
                                   k.buffers.push_back(buffer->value);
                                 for (const Parameter& p : parameters_)
                                   k.hooks.emplace_back(p.first_own_hook(), p.all_hooks().end());
                                 drop_hooks();
                               },
                           .goes_on =
                               [&](std::int64_t grain) {
                                 const Kept& k = kept.at(grain);
                                 grain_ = grain;
                                 for (std::size_t i = 0; i < generators_.size(); ++i)
                                   *generators_[i].first = k.generators[i];
                                 for (std::size_t i = 0; i < buffers_.size(); ++i)
                                   buffers_[i].first->value = k.buffers[i];
                                 for (std::size_t i = 0; i < parameters_.size(); ++i)
                                   for (const auto& hook : k.hooks[i])
                                     parameters_[i].all_hooks().push_back(hook);
                               }});
}

template <class A>
void DataParallel<A>::restore() {
  for (const auto& [buffer, before] : buffers_) buffer->value = before;
}

template <class A>
void DataParallel<A>::give_up() {
  Meeting::grains_run_apart(false);
  restore();
  for (const auto& [rng, before] : generators_) *rng = before;
  drop_hooks();
}

template <class A>
void DataParallel<A>::enter(std::int64_t grain) {
  grain_ = grain;
  Meeting::grains_run_apart(!meets_);
  restore();
  for (Parameter& p : parameters_) p.hooks = p.all_hooks().size();
  for (const auto& [rng, before] : generators_)
    *rng = {grain_seed(before.seed, before.offset, grain), 0};
}

template <class A>
void DataParallel<A>::add(const Tensor<A>& loss) {
  if (loss.numel() != 1)
    refuse("data_parallel: a grain's loss has shape {}, it must be one number", {loss.shape()});
  const bool last = grain_ + 1 == grains_->share(workers_.rank()).end;
  for (const auto& [buffer, place] : integers_)
    if (detail::where(buffer->value) != place)
      refuse(
          "data_parallel: grain {} changed a buffer of integers; those of several grains have no "
          "mean",
          {grain_});
  give(slots_.size(), reshape(loss.inner(), {1}));
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const auto& [buffer, before] = buffers_[b];
    if (detail::where(buffer->value) != detail::where(before)) changed_[b] = true;
    give(first_buffer_ + b, buffer->value);
  }
  if (last)
    for (std::size_t s = first_buffer_; s < slots_.size(); ++s) complete(s);
  const struct Hooks {
    DataParallel& of;
    ~Hooks() { of.drop_hooks(); }
  } hooks{*this};
  if (last && !meets_) add_hooks();  // where grains meet, others have not given theirs
  const auto found = loss.backward();
  Meeting::grains_run_apart(false);
  bool any_rows = false;
  found.for_each([&](const Node<B>& leaf, const auto&) {
    any_rows |= dynamic_cast<const RowLeaf<B>*>(&leaf) != nullptr;
  });
  for (Parameter& p : parameters_) {
    std::optional<RowGradient<B>> rows;
    if (any_rows) rows = row_gradient(**p.parameter, found);
    auto g = (*p.parameter)->grad(found);
    // In the last grain it is on its way, without those rows; so it is refused in any.
    if (p.early && rows && g)
      refuse("data_parallel: {} is read by rows and used otherwise, too; name it in by_rows",
             {p.path});
    if (completed_[p.slot]) continue;
    p.dense |= g.has_value();
    const bool by_rows = rows && !g;
    if (rows) g = g ? *g + rows->dense() : rows->dense();
    if (g && slots_[p.slot].by_rows) g = with_readers(*g, by_rows ? &*rows : nullptr);
    give(p.slot, std::move(g));
    if (last) complete(p.slot);
  }
}

// Like the digits of a binary counter: subtrees of one size are added as soon as there are two.
template <class A>
void DataParallel<A>::give(std::size_t slot, std::optional<Tensor<B>> value) {
  const Dtype dtype = slot < slots_.size() ? slots_[slot].dtype : Dtype::f64;
  if (value && value->dtype() != dtype) value = to_float(*value, dtype);
  auto& stack = subtrees_[slot];
  stack.push_back({{grain_, grain_ + 1}, std::move(value)});
  while (stack.size() > 1) {
    Subtree& left = stack[stack.size() - 2];
    Subtree& right = stack.back();
    if (!are_siblings(left.range, right.range, grains_->count())) break;
    if (left.sum || right.sum) {
      if (!left.sum) left.sum = zeros_like(*right.sum);
      if (!right.sum) right.sum = zeros_like(*left.sum);
      left.sum = std::move(*left.sum) + *right.sum;
    }
    left.range.end = right.range.end;
    stack.pop_back();
  }
}

// A table's gradient with one more column: 1 in rows that the grain has read.
template <class A>
auto DataParallel<A>::with_readers(const Tensor<B>& g, const RowGradient<B>* rows) const
    -> Tensor<B> {
  const auto nobody = zeros<B>({g.extent(0), 1}, g.dtype(), g.device());
  if (rows == nullptr) return cat(std::vector{g, nobody}, 1);
  const auto one = full<B>({rows->rows.numel(), 1}, 1, g.dtype(), g.device());
  return cat(std::vector{g, RowGradient<B>{rows->rows, one, rows->table}.dense()}, 1);
}
template <class A>
void DataParallel<A>::take_rows(const Parameter& p, optim::ModelGradients<B>& to) const {
  const Tensor<B> like = p.parameter->value();
  const std::int64_t rows = like.extent(0), width = like.extent(1);
  const bool dense = buckets_.marked(p.slot);
  const auto found =
      detail::taken_rows(static_cast<const float*>(buckets_.sum(p.slot)), rows, width, dense);
  const auto count = static_cast<std::int64_t>(found.index.size());
  auto values =
      Tensor<B>::from(std::span<const float>(found.values), {count, width}, like.device());
  if (like.dtype() != Dtype::f32) values = to_float(values, like.dtype());
  if (dense)
    to.emplace(p.path, std::move(values));
  else if (count > 0)
    to.rows.emplace(
        p.path, RowGradient<B>{Tensor<B, IntKind>::from(std::span<const std::int64_t>(found.index),
                                                        {count}, like.device()),
                               std::move(values), rows});
}

template <class A>
void DataParallel<A>::complete(std::size_t slot) {
  completed_[slot] = true;
  bool any = false;
  auto& stack = subtrees_[slot];
  for (std::size_t r = 0; r < stack.size(); ++r) {
    detail::put(buckets_.place(slot), stream_, buckets_.root(slot, r), slots_[slot],
                stack[r].sum ? &stack[r].sum->primitive() : nullptr);
    any |= stack[r].sum.has_value();
  }
  stack.clear();
  if (slot >= first_buffer_) any = changed_[slot - first_buffer_];
  buckets_.complete(slot, any, stream_, slot < first_buffer_ && parameters_[slot].dense);
}

template <class A>
auto DataParallel<A>::finish() -> BatchGradients<B> {
  for (std::size_t s = 0; s < slots_.size(); ++s)  // of a worker without grains
    if (!completed_[s]) complete(s);
  std::vector<double> losses;
  for (const Subtree& s : subtrees_.back()) losses.push_back(s.sum->template item<double>());
  BatchGradients<B> found;
  const auto begin = std::chrono::steady_clock::now();
  // Grains that meet have waited for others meanwhile.
  std::vector<double> each(nanoseconds_.size());
  if (const std::int64_t mine = share().count(); mine > 0 && !meets_ && !each.empty())
    each[static_cast<std::size_t>(workers_.rank())] =
        static_cast<double>(std::chrono::nanoseconds(begin - began_).count() / mine);
  found.loss = buckets_.finish(losses, each);
  for (std::size_t w = 0; w < each.size(); ++w)
    if (each[w] > 0) nanoseconds_[w] = static_cast<std::int64_t>(each[w]);
  found.seconds_waited =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto tensor = [&](std::size_t s, const Tensor<B>& like) {
    return Tensor<B>(typename B::FloatTensor{
        detail::taken(buckets_.place(s), like.device(), slots_[s], buckets_.sum(s))});
  };
  restore();
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buckets_.present(first_buffer_ + b)) continue;
    auto& [buffer, before] = buffers_[b];
    const auto mean = tensor(first_buffer_ + b, before) / static_cast<double>(grains_->count());
    buffer->value = before.dtype() == mean.dtype() ? mean : to_float(mean, before.dtype());
  }
  for (const auto& [rng, before] : generators_) *rng = {before.seed, before.offset + 1};
  for (const Parameter& p : parameters_) {
    if (!buckets_.present(p.slot)) continue;
    if (slots_[p.slot].by_rows) {
      take_rows(p, found.gradients);
      continue;
    }
    const Tensor<B> like = p.parameter->value();
    auto sum = tensor(p.slot, like);
    found.gradients.emplace(p.path,
                            like.dtype() == sum.dtype() ? sum : to_float(sum, like.dtype()));
  }
  parameters_.clear();
  return found;
}

}  // namespace planck::dist
