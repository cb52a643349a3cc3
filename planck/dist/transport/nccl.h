// Workers with a GPU each, whose memory is sent by NCCL. NCCL moves bytes and adds nothing: its own
// sums depend on message sizes and rings. Ours: AllReduce.
//
// NCCL is loaded when join() is called (libnccl.so.2 of the CUDA toolkit), not linked. Exchanges
// are in the order of the stream. A build without NCCL has Nccl too; join() says what is missing.
//
// A peer or a link that NCCL loses does not keep the stream waiting: a thread asks ten times a
// second, and the next call of this communicator throws.
#pragma once

#include "planck/dist/transport/communicator.h"

namespace planck::dist {

class Nccl final : public Communicator {
 public:
  static bool built();
  // The same workers as `host`, which sets the connection up, ends the job, and must outlive it.
  // `stream` is one of this worker's GPU; no two workers may share a GPU. Where one of them has no
  // NCCL, or no GPU, none joins, and all are told.
  static Result<std::unique_ptr<Nccl>> join(Communicator& host, const Stream& stream);

  ~Nccl() override;
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int local_size() const override { return host_.local_size(); }
  int local_rank() const override { return host_.local_rank(); }
  int cores() const override { return host_.cores(); }
  Stream stream() const override { return stream_; }
  Communicator& host() override { return host_; }
  // All of an exchange is one launch: what has arrived is known when everything has.
  std::size_t piece_bytes() const override { return std::size_t{1} << 30; }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived = nullptr) override;
  void broadcast(void* data, std::size_t bytes, int from) override;
  void wait() override;
  void barrier() override;  // of the host, and of what the stream has been given
  [[noreturn]] void abort(std::string_view line) override;
  std::unique_ptr<Communicator> duplicate() override;  // on a stream of its own

 private:
  struct Watch;
  Nccl(Communicator& host, const Stream& stream, std::unique_ptr<Watch> watch);
  std::unique_ptr<Communicator> own_;  // its host, where it was duplicated
  Communicator& host_;
  Stream stream_;
  std::unique_ptr<Watch> watch_;  // has NCCL's communicator
};

}  // namespace planck::dist
