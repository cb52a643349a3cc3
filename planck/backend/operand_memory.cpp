#include <utility>
#include <vector>

#include "planck/backend/planned.h"

namespace planck::backend_detail {

namespace {

// Where outputs lie that lie as inputs do: in one block, where the inputs do, else each in its
// input's order.
class LikeInputs {
 public:
  // The first output that asks is number `i`.
  void find(std::size_t i, std::span<const OperandSpec> specs, std::span<const int> lies_as,
            const Operands& operands, const Stream& stream) {
    if (std::exchange(asked_, true)) return;
    std::vector<View> all;
    for (std::size_t j = i; j < specs.size(); ++j)
      if (lies_as[j] >= 0 && specs[j].used)
        all.push_back(operands[static_cast<std::size_t>(lies_as[j])]);
    const Neighbours found = neighbours(all);
    if (found.elements == 0) return;
    block_ = Storage::allocate(stream, bytes_for(specs[i].dtype, found.elements));
    first_ = found.first;
  }
  void place(StoredView& out, const View& like) const {
    auto& [storage, view] = out;
    view.strides = block_ ? like.strides : dense_in_order_of(view.shape, like.strides);
    if (!block_) return;
    storage = block_;
    view.data = static_cast<std::byte*>(storage->data()) +
                (static_cast<const std::byte*>(like.data) - first_);
  }

 private:
  bool asked_ = false;
  Shared<Storage> block_;
  const std::byte* first_ = nullptr;
};

}  // namespace

OperandMemory::OperandMemory(const OpInfo& info, std::span<const OperandSpec> specs,
                             std::span<const int> lies_as, bool in_place, const Stream& stream,
                             std::span<const View> inputs, std::span<StoredView* const> spares,
                             std::span<StoredView* const> outputs, unsigned skipped) {
  std::size_t next_input = 0, next_output = 0;
  LikeInputs like_inputs;
  for (std::size_t i = 0; i < info.operands.size(); ++i) {
    const OperandSpec& spec = specs[i];
    if (!spec.used) continue;
    if (info.operands[i].role == Role::input) {
      if (next_input < inputs.size()) operands[i] = inputs[next_input++];
      continue;
    }
    if (skipped > 0) {  // outputs the op does not want, from the front
      --skipped;
      continue;
    }
    if (next_output == outputs.size()) continue;
    StoredView& out = *outputs[next_output++];
    auto& [storage, view] = out;
    view = View{nullptr, spec.dtype, spec.shape, row_major(spec.shape), true};
    if (lies_as[i] >= 0) {
      like_inputs.find(i, specs, lies_as, operands, stream);
      like_inputs.place(out, operands[static_cast<std::size_t>(lies_as[i])]);
    }
    if (!storage && in_place && !spec.count_only && bits(spec.dtype) >= 8)
      for (StoredView* spare : spares)
        if (spare != nullptr && spare->storage && spare->view.dtype == spec.dtype &&
            spare->view.shape == spec.shape && spare->view.strides == view.strides) {
          storage = std::move(spare->storage);
          view.data = spare->view.data;
          taken_[i].from = spare, taken_[i].to = &out;
          break;
        }
    if (!storage) {
      storage = Storage::allocate(stream, bytes_for(spec.dtype, numel(spec.shape)));
      view.data = storage->data();
    }
    operands[i] = view;
  }
}

void OperandMemory::keep() {
  for (Taken& t : taken_) t.from = nullptr;
}
OperandMemory::Taken::~Taken() {
  if (from != nullptr) from->storage = std::move(to->storage);
}

}  // namespace planck::backend_detail
