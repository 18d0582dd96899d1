// A fake of NCCL in the library of the fake driver: ranks are threads of one process, memory is the host's.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>

#include "tests/cuda/fake_objects.h"

namespace heddle::fake {
namespace {

constexpr int nccl_remote_error = 6;

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t ranks = 0, arrived = 0, aborted = 0;
  uint64_t meetings = 0;
  std::vector<void*> parts;
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> sent;  // (from, to) -> in order

  // Waits until all ranks are here; the last one calls done(). False: one has left the group, or is late.
  bool meet(uint32_t rank, void* part, const std::function<void()>& done) {
    std::unique_lock lock(mutex);
    parts.resize(ranks);
    parts[rank] = part;
    const uint64_t meeting = meetings;
    if (++arrived == ranks) {
      done();
      arrived = 0;
      ++meetings;
      changed.notify_all();
      return true;
    }
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return meetings != meeting || aborted; });
    return meetings != meeting;
  }
};

struct Communicator {
  std::shared_ptr<Group> group;
  uint32_t rank;
  std::atomic<int> error = 0;
};

std::mutex groups_mutex;
std::map<uint64_t, std::shared_ptr<Group>> groups;
uint64_t next_group = 0;

}  // namespace
}  // namespace heddle::fake

using namespace heddle::fake;

extern "C" {

struct FakeNcclId {
  uint64_t number;
  char rest[120];
};
int ncclGetVersion(int* version) {
  *version = 22803;
  return enter("ncclGetVersion", false);
}
const char* ncclGetErrorString(int code) { return code == nccl_remote_error ? "remote process error" : "some error"; }
int ncclGetUniqueId(FakeNcclId* id) {
  std::lock_guard lock(groups_mutex);
  *id = {};
  id->number = ++next_group;
  return enter("ncclGetUniqueId", false);
}
int ncclCommInitRank(void** out, int ranks, FakeNcclId id, int rank) {
  if (int r = enter("ncclCommInitRank")) return r;
  std::shared_ptr<Group> group;
  {
    std::lock_guard lock(groups_mutex);
    std::shared_ptr<Group>& found = groups[id.number];
    if (!found) found = std::make_shared<Group>();
    group = found;
    group->ranks = uint32_t(ranks);
  }
  auto* comm = new Communicator{group, uint32_t(rank)};
  if (!group->meet(comm->rank, nullptr, [] {})) {
    delete comm;
    return nccl_remote_error;
  }
  born(comm, "communicator");
  *out = comm;
  return 0;
}
int ncclCommAbort(void* comm) {
  auto* c = static_cast<Communicator*>(comm);
  {
    std::lock_guard lock(c->group->mutex);
    ++c->group->aborted;
    c->group->changed.notify_all();
  }
  return release<Communicator>("ncclCommAbort", comm);
}
int ncclCommGetAsyncError(void* comm, int* error) {
  *error = static_cast<Communicator*>(comm)->error;
  return enter("ncclCommGetAsyncError");
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* comm, void* stream) {
  if (int r = enter("ncclAllReduce")) return r;
  if (type != 7 || operation != 0 || from != to) return 4;
  auto* c = static_cast<Communicator*>(comm);
  transfer(stream, [=] {
    const bool met = c->group->meet(c->rank, to, [=] {
      const std::vector<void*>& parts = c->group->parts;
      std::vector<float> sums(count);
      for (void* part : parts)
        for (size_t i = 0; i < count; ++i) sums[i] += static_cast<const float*>(part)[i];
      for (void* part : parts) std::memcpy(part, sums.data(), count * 4);
    });
    if (!met) c->error = nccl_remote_error;
  });
  return 0;
}
int ncclAllGather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  if (int r = enter("ncclAllGather")) return r;
  if (type != 7) return 4;
  auto* c = static_cast<Communicator*>(comm);
  transfer(stream, [=] {
    // all have what they give in place before anyone looks, and no rank goes on before all have looked
    bool met = c->group->meet(c->rank, const_cast<void*>(from), [] {});
    for (uint32_t r = 0; met && r < c->group->ranks; ++r)
      std::memcpy(static_cast<float*>(to) + r * count, c->group->parts[r], count * 4);
    met = met && c->group->meet(c->rank, const_cast<void*>(from), [] {});
    if (!met) c->error = nccl_remote_error;
  });
  return 0;
}
int ncclSend(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  if (int r = enter("ncclSend")) return r;
  if (type != 7) return 4;
  auto* c = static_cast<Communicator*>(comm);
  transfer(stream, [=] {
    const auto* values = static_cast<const float*>(from);
    std::lock_guard lock(c->group->mutex);
    c->group->sent[{int(c->rank), peer}].emplace_back(values, values + count);
    c->group->changed.notify_all();
  });
  return 0;
}
int ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  if (int r = enter("ncclRecv")) return r;
  if (type != 7) return 4;
  auto* c = static_cast<Communicator*>(comm);
  transfer(stream, [=] {
    std::unique_lock lock(c->group->mutex);
    auto& queue = c->group->sent[{peer, int(c->rank)}];
    c->group->changed.wait_for(lock, std::chrono::seconds(20), [&] { return !queue.empty() || c->group->aborted; });
    if (queue.empty() || queue.front().size() != count) {
      c->error = nccl_remote_error;
      return;
    }
    std::memcpy(to, queue.front().data(), count * 4);
    queue.pop_front();
  });
  return 0;
}
int ncclGroupStart() { return enter("ncclGroupStart"); }
int ncclGroupEnd() { return enter("ncclGroupEnd"); }

}  // extern "C"
