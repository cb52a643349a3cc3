// Data-parallel training whose bits do not depend on the number of workers.
//
//   dist::DataParallel<A> parallel(workers);
//   auto found = parallel(model, grains, [&](std::int64_t grain) { return loss of that grain; });
//   adam.step(model, found.gradients);                 // on every worker, with the same gradients
//
// A global batch is cut into grains, the same ones for any number of workers. Each worker asks for
// the losses of its share, which may follow its speed (DataParallelOptions::balance); what comes
// back is the canonical sum over all grains (grains.h), of the losses and of every gradient. A loss
// is the grain's part of the batch's: the sum over its samples divided by the samples of the batch.
// Gradients are summed in f32 (f64 for f64) and rounded once to the parameter's dtype.
//
// What else a forward pass does is defined per grain, too:
//   parameters   one that a grain does not use counts as +0 there; one that no grain uses has no
//                gradient
//   tables       that are read by rows (nn::Embedding with sparse gradients) have dense gradients,
//                unless DataParallelOptions::by_rows names them: then rows are sent, and given
//   buffers      (running statistics) start each grain as they were before the batch; afterwards
//                they are the mean over grains, by the same tree, of what each left, be it
//                unchanged; those that no grain changed stay as they are. Batch norm normalizes per
//                grain, SyncBatchNorm (sync_batch_norm.h) by all of them
//   generators   (dropout) draw, in grain g, from a seed made of theirs, their offset and g; after
//                the batch their offset is one more
//   hooks        of parameters that a grain's loss registers act on that grain's gradients, and are
//                gone after it; those registered outside act on every grain's
// Where a loss throws, the model is as it was before the batch.
//
// Gradients go into buckets as soon as the last grain's backward has found them, and travel while
// it goes on. Neither the size of buckets nor that overlap changes a bit. They are summed in the
// communicator's memory: on the host, or on the GPU (Nccl, Staged), with the same bits.
#pragma once

#include <chrono>
#include <exception>

#include "planck/dist/balance.h"
#include "planck/dist/buckets.h"
#include "planck/dist/meeting.h"
#include "planck/dist/state.h"
#include "planck/optim/gradients.h"

namespace planck::dist {

struct DataParallelOptions {
  std::size_t bucket_bytes = 25 << 20;
  bool overlap = true;
  // Paths of tables of which a grain touches few rows: only rows with a bit set are sent, when
  // backward has ended. Where every grain has read a table by rows and used it in no other way, its
  // gradient is given as rows, those that some grain has read: optimizers step these alone. Else it
  // is dense, and has the bits that it has without. On each worker the sum of grains is as large as
  // the table, whatever is sent and given.
  std::vector<std::string> by_rows = {};
  // Workers that were faster in the last batch get more grains of the next one (balance.h). Then
  // any worker is asked for any grain's loss, so that all of them need all data.
  bool balance = false;
};

template <class B>
struct BatchGradients {
  optim::ModelGradients<B> gradients;
  double loss = 0;            // of the batch, summed in f64
  double seconds_waited = 0;  // for others, after this worker's own work was done
};

// A layer that asks for sums over all grains while they are computed (sync_batch_norm.h).
struct Synchronized {};

// The seed that a generator has in one grain.
std::uint64_t grain_seed(std::uint64_t seed, std::uint64_t offset, std::int64_t grain);

template <class A>
class DataParallel {
 public:
  using B = nn::Inner<A>;
  explicit DataParallel(Communicator& workers, const DataParallelOptions& options = {});

  ~DataParallel();
  DataParallel(const DataParallel&) = delete;

  Communicator& workers() const { return workers_; }

  // loss(grain) is called for this worker's grains, in order.
  template <class Module, class Loss>
  BatchGradients<B> operator()(Module& module, std::int64_t grains, Loss&& loss) {
    const nn::PartList parts = nn::parts_of(module);
    begin(parts, grains);
    const GiveUpWhereItThrows unless_done{*this};
    bool meet = false;
    nn::for_each_part(module, [&](const std::string&, const Synchronized&) { meet = true; });
    if (meet) {
      together(loss);
      return finish();
    }
    const Range mine = share();
    for (std::int64_t g = mine.first; g < mine.end; ++g) {
      enter(g);
      add(loss(g));
    }
    return finish();
  }

  // The same in steps, for models without layers that are Synchronized. `parts` must outlive
  // finish().
  void begin(const nn::PartList& parts, std::int64_t grains);
  Range share() const { return grains_->share(workers_.rank()); }  // grains that it asks for
  void enter(std::int64_t grain);                                  // before its forward pass
  void add(const Tensor<A>& loss);                                 // after it
  BatchGradients<B> finish();

 private:
  // The subtrees of one slot that this worker has so far; none where nothing was given.
  struct Subtree {
    Range range;
    std::optional<Tensor<B>> sum;
  };
  struct Parameter {
    std::string path;
    nn::Parameter<A>* parameter;
    std::size_t slot = 0;
    bool early = true;      // sent while backward goes on
    std::size_t hooks = 0;  // that its leaf had before the grain
    bool dense = false;     // a grain here has used it, not by rows alone

    std::vector<typename Leaf<B>::Hook>& all_hooks() const {
      return static_cast<Leaf<B>*>((*parameter)->primitive().from.node.get())->hooks;
    }
    auto first_own_hook() const {  // of the grain
      auto& all = all_hooks();
      return all.begin() + static_cast<std::ptrdiff_t>(std::min(hooks, all.size()));
    }
  };
  struct GiveUpWhereItThrows {
    DataParallel& of;
    int exceptions = std::uncaught_exceptions();
    ~GiveUpWhereItThrows() {
      if (std::uncaught_exceptions() > exceptions) of.give_up();
    }
  };
  void give_up();
  void together(const std::function<Tensor<A>(std::int64_t)>& loss);
  void add_hooks();
  void drop_hooks();
  void give(std::size_t slot, std::optional<Tensor<B>> value);
  void complete(std::size_t slot);
  void restore();
  Tensor<B> with_readers(const Tensor<B>& g, const RowGradient<B>* rows) const;
  void take_rows(const Parameter& p, optim::ModelGradients<B>& to) const;

  Communicator& workers_;
  DataParallelOptions options_;
  Buckets buckets_;
  std::optional<Grains> grains_;
  std::vector<std::int64_t> nanoseconds_;  // of a grain, by worker; where shares are balanced
  std::chrono::steady_clock::time_point began_;
  std::int64_t grain_ = 0;
  std::vector<Slot> slots_;
  std::size_t first_buffer_ = 0;                // slot
  std::vector<std::vector<Subtree>> subtrees_;  // by slot
  std::vector<bool> completed_;
  std::vector<Parameter> parameters_;
  std::vector<std::pair<nn::Buffer<A>*, Tensor<B>>> buffers_;        // and what they were
  std::vector<bool> changed_;                                        // buffers, by a grain here
  std::vector<std::pair<nn::IntBuffer<A>*, const void*>> integers_;  // and where they lay
  std::vector<std::pair<Rng*, Rng>> generators_;
  Stream stream_ = Stream::cpu(1);  // of the model
  std::unique_ptr<Meeting> meeting_;
  bool meets_ = false;
};

}  // namespace planck::dist

#include "planck/dist/data_parallel_steps.h"

namespace planck::dist {
extern template class DataParallel<Autodiff<Cpu>>;
PLANCK_IF_CUDA(extern template class DataParallel<Autodiff<Cuda>>;)
extern template class DataParallel<Autodiff<Cpu, BalancedCheckpointing>>;
PLANCK_IF_CUDA(extern template class DataParallel<Autodiff<Cuda, BalancedCheckpointing>>;)
}  // namespace planck::dist
