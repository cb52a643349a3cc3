// Memory of a GPU, sent through a communicator of the host's: by the GPU's own pointers where that
// one takes them (an MPI library that knows CUDA), else through pinned memory.
//
//   dist::Staged gpu(*mpi, Stream::cuda());
//   dist::DataParallel<Autodiff<Cuda>> parallel(gpu);      // gradients are summed on the GPU
//
// Workers may share a GPU. What is sent, and in which messages, is what workers without a GPU send,
// collectives too: some workers may use Staged and others the host's communicator itself.
#pragma once

#include "planck/dist/transport/communicator.h"

namespace planck::dist {

class Staged final : public Communicator {
 public:
  // `host` sets the connection up, ends the job, and must outlive it.
  Staged(Communicator& host, const Stream& stream);
  ~Staged() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int local_size() const override { return host_.local_size(); }
  int local_rank() const override { return host_.local_rank(); }
  int cores() const override { return host_.cores(); }
  Stream stream() const override { return stream_; }
  Communicator& host() override { return host_; }
  std::size_t piece_bytes() const override { return host_.piece_bytes(); }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived = nullptr) override;
  void broadcast(void* data, std::size_t bytes, int from) override;
  void all_gather(const void* mine, std::size_t bytes, void* all) override;
  void barrier() override;
  [[noreturn]] void abort(std::string_view line) override;
  std::unique_ptr<Communicator> duplicate() override;  // on a stream of its own

 private:
  Staged(std::unique_ptr<Communicator> own, const Stream& stream);
  std::byte* room(std::size_t bytes);

  std::unique_ptr<Communicator> own_;  // where it was duplicated
  Communicator& host_;
  Stream stream_;
  std::byte* room_ = nullptr;  // pinned
  std::size_t room_bytes_ = 0;
};

}  // namespace planck::dist
