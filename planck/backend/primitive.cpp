#include "planck/backend/primitive.h"

#include <map>
#include <mutex>

#include "planck/backend/side_by_side.h"
#include "planck/core/exception.h"
#include "planck/core/stream/recording.h"

namespace planck {

Shared<Storage> Storage::allocate(const Stream& stream, std::size_t bytes) {
  auto storage =
      Shared<Storage>::adopt(new Storage(value_or_throw(planck::allocate(stream, bytes)), stream));
  if (Recording* beside = backend_detail::side_by_side(stream))
    beside->keep_until_join(std::make_shared<const Shared<Storage>>(storage));
  return storage;
}

Shared<Storage> Storage::borrow(const Stream& stream, void* data, std::size_t bytes,
                                std::shared_ptr<const void> owner) {
  return Shared<Storage>::adopt(new Storage(stream, data, bytes, std::move(owner)));
}
void Storage::wait() noexcept {
  if (stream_.device().kind == DeviceKind::cuda) (void)stream_.synchronize();
}

StoredView StoredView::empty(const Stream& stream, Dtype dtype, const Shape& shape) {
  StoredView t;
  t.storage = Storage::allocate(stream, bytes_for(dtype, numel(shape)));
  t.view = View{t.storage->data(), dtype, shape, row_major(shape), true};
  return t;
}

namespace backend_detail {

Stream shared_stream(Device device) {
  // Streams of the defaults live as long as the process.
  static std::mutex mutex;
  static auto& streams = *new std::map<std::pair<DeviceKind, int>, Stream>;
  std::lock_guard lock(mutex);
  const auto key = std::pair{device.kind, device.ordinal};
  if (auto it = streams.find(key); it != streams.end()) return it->second;
  return streams.emplace(key, value_or_throw(Stream::on(device))).first->second;
}

}  // namespace backend_detail

}  // namespace planck
