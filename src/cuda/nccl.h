// NCCL as a table of functions, found at run time like the driver, and a group of ranks that talk through it.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/shared_library.h"
#include "cuda/stream.h"

namespace heddle::cuda {

// No NCCL library: not found (the message says where it was looked for), or too old (which function it lacks).
struct NoNccl : Error {
  explicit NoNccl(const std::string& message) : Error("{}", message) {}
};
// A call of NCCL failed. The message names the call and NCCL's reason.
struct NcclError : Error {
  explicit NcclError(const std::string& message) : Error("{}", message) {}
};

// What the ranks of a group must all have before they can meet: made by one, sent to the others.
struct NcclId {
  std::array<std::byte, 128> bytes;
};

struct Nccl {
  // Throws NoNccl. An empty path: libnccl.so.2, then libnccl.so, where the system looks for libraries.
  explicit Nccl(const std::string& path);
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  SharedLibrary library;
  int version = 0;  // 22803 for 2.28.3

  Call<NcclId*> unique_id{*this, "ncclGetUniqueId", 20000};
  Call<void**, int, NcclId, int> init_rank{*this, "ncclCommInitRank", 20000};
  Call<void*> comm_abort{*this, "ncclCommAbort", 20400};
  Call<void*, int*> async_error{*this, "ncclCommGetAsyncError", 20400};
  Call<const void*, void*, size_t, int, int, void*, void*> all_reduce{*this, "ncclAllReduce", 20000};
  Call<const void*, void*, size_t, int, void*, void*> all_gather{*this, "ncclAllGather", 20000};
  Call<const void*, size_t, int, int, void*, void*> send{*this, "ncclSend", 20700};
  Call<void*, size_t, int, int, void*, void*> receive{*this, "ncclRecv", 20700};
  Call<> group_start{*this, "ncclGroupStart", 20000};
  Call<> group_end{*this, "ncclGroupEnd", 20000};

  std::string version_text() const;  // "2.28.3"
  std::string reason(int code) const;
  void* find(const char* symbol, int since, bool optional) const;
};

// The NCCL of this process: the library named by HEDDLE_LIBNCCL, or the system's. Loaded by the first call that
// succeeds. Throws NoNccl.
const Nccl& nccl();
NcclId make_nccl_id();

// One rank of a group, on the GPU of its context, move-only. Its verbs are work of a stream, and can be part of a plan
// and of a graph; all ranks call them in the same order with the same counts. Values are f32.
class Communicator {
 public:
  // Waits for all ranks.
  Communicator(const Context& context, const NcclId& id, uint32_t rank, uint32_t ranks);
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&&) = delete;
  ~Communicator();

  // The values become their sums over all ranks: the same bits on each.
  void sum(Stream& stream, uint64_t values, uint64_t count);
  // `all`: `count` values of each rank, one after the other.
  void gather(Stream& stream, uint64_t part, uint64_t all, uint64_t count);
  void send(Stream& stream, uint32_t to, uint64_t values, uint64_t count);
  void receive(Stream& stream, uint32_t from, uint64_t values, uint64_t count);

  // Why the group no longer works; empty: it does.
  std::string failure() const;
  // Ends what waits for other ranks, which cannot be waited for any more. From any thread.
  void abort() noexcept;

 private:
  void call(int result, const char* name) const;
  Context context_;
  const Nccl* api_;
  std::atomic<void*> handle_ = nullptr;
};

}  // namespace heddle::cuda
