// A pointer to an object that counts its owners itself: one word, one allocation. T has
//   void retain() noexcept;   void release() noexcept;   // release frees it with its last owner
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace planck {

template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  // Takes over the reference that a new object is born with.
  static Shared adopt(T* object) {
    Shared s;
    s.object_ = object;
    return s;
  }
  Shared(const Shared& other) : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Shared() {
    if (object_ != nullptr) object_->release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Shared& a, const Shared& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

// The count itself, for T to inherit.
class Counted {
 public:
  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  bool unique() const noexcept { return owners_.load(std::memory_order_acquire) == 1; }

 protected:
  // Whether this was the last owner. An only owner needs no atomic subtraction.
  bool drop() noexcept {
    if (unique()) return true;
    return owners_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  std::atomic<std::uint32_t> owners_{1};
};

}  // namespace planck
