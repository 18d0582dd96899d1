// Probes across threads: special registers, shuffles, votes, barriers, clusters, control flow.
#include "tests/ptx/instructions/instructions.h"

namespace heddle::ptx::instructions {
namespace {

void places(Probes& all) {
  for (int s = int(Special::tid_x); s <= int(Special::globaltimer); ++s)
    all.push_back([s](Stage& k) { k.special(Special(s)); });
  all.push_back([](Stage& s) { s.clock(); });
  all.push_back([](Stage& s) { s.globaltimer(); });
}

void warps(Probes& all) {
  types<uint32_t, int32_t, float, f16x2, bf16x2, tf32>([&]<class T>() {
    for (ShuffleMode mode : {ShuffleMode::xor_, ShuffleMode::idx, ShuffleMode::up, ShuffleMode::down})
      all.push_back([mode](Stage& s) { shuffle_checked(mode, s.value<T>(), s.value<uint32_t>(), 16); });
    all.push_back([](Stage& s) { shuffle_xor(s.value<T>(), 1u); });
    all.push_back([](Stage& s) { shuffle(s.value<T>(), s.lane()); });
    all.push_back([](Stage& s) { shuffle_up(s.value<T>(), 1u); });
    all.push_back([](Stage& s) { shuffle_down(s.value<T>(), 1u); });
  });
  all.push_back([](Stage& s) { vote_all(s.value<bool>()); });
  all.push_back([](Stage& s) { vote_any(s.value<bool>()); });
  all.push_back([](Stage& s) { vote_uniform(s.value<bool>()); });
  all.push_back([](Stage& s) { ballot(s.value<bool>()); });
  types<uint32_t, uint64_t>([&]<class T>() {
    all.push_back([](Stage& s) { match_any(s.value<T>()); });
    all.push_back([](Stage& s) { match_all(s.value<T>()); });
  });
  types<uint32_t, int32_t>([&]<class T>() {
    for (Atomic what : {Atomic::add, Atomic::min, Atomic::max, Atomic::bit_and, Atomic::bit_or, Atomic::bit_xor})
      all.push_back([what](Stage& s) { warp_reduce(what, s.value<T>()); });
  });
  all.push_back([](Stage& s) { s.active_mask(); });
  all.push_back([](Stage& s) { s.elect_one(); });
  all.push_back([](Stage& s) { s.warp_sync(); });
  all.push_back([](Stage& s) { s.nanosleep(s.value<uint32_t>()); });
}

void blocks(Probes& all) {
  all.push_back([](Stage& s) { s.barrier(); });
  all.push_back([](Stage& s) { s.barrier(1, 64); });
  all.push_back([](Stage& s) { s.barrier_arrive(2, 64); });
  all.push_back([](Stage& s) { s.barrier_count(s.value<bool>()); });
  all.push_back([](Stage& s) { s.barrier_all(s.value<bool>()); });
  all.push_back([](Stage& s) { s.barrier_any(s.value<bool>()); });
  all.push_back([](Stage& s) { s.cluster_arrive(Order::release); });
  all.push_back([](Stage& s) { s.cluster_arrive(Order::relaxed); });
  all.push_back([](Stage& s) { s.cluster_wait(); });
  all.push_back([](Stage& s) { in_block(s.shared_at<float>(), s.value<uint32_t>()); });
  all.push_back([](Stage& s) { s.grid_wait(); });
  all.push_back([](Stage& s) { s.grid_launch_dependents(); });
}

void flow(Probes& all) {
  all.push_back([](Stage& s) { s.when(s.value<bool>(), [&] { s.trap(); }); });
  all.push_back([](Stage& s) {
    s.when_else(
        s.value<bool>(), [&] { store(s.global<float>(), 1.0f); }, [&] { store(s.global<float>(), 2.0f); });
  });
  types<uint32_t, int32_t, uint64_t, int64_t>([&]<class T>() {
    all.push_back(
        [](Stage& s) { s.loop(s.value<T>(), s.value<T>(), T(1), [&](Val<T> i) { store(s.global<T>(), i); }); });
  });
}

}  // namespace

void add_threads(Probes& all) {
  places(all);
  warps(all);
  blocks(all);
  flow(all);
}

}  // namespace heddle::ptx::instructions
