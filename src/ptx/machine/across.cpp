// What happens between threads: shuffles, votes, barriers; and the steps that concern the schedule.
#include "ptx/machine/cta.h"

namespace heddle::ptx::machine {
namespace {

using Kind = Report::Kind;

void need_whole_warp(Warp& w) {
  if (w.mask != ~0u)
    w.fail(Kind::barrier_divergence, uint32_t(__builtin_ctz(~w.mask)),
           fmt::format("{} is reached by lanes {:#010x} only, it needs the whole warp", name(w.at->inst->op), w.mask));
}

void shuffle(Warp& w, const Step& s) {
  need_whole_warp(w);
  uint32_t value[32], in_range[32];
  const uint32_t *v = w.read<uint32_t>(s.src[0]), *b = w.read<uint32_t>(s.src[1]), *c = w.read<uint32_t>(s.src[2]);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t segment = c[lane] >> 8 & 31, bound = (lane & segment) | (c[lane] & 31 & ~segment), n = b[lane] & 31;
    int32_t from = 0;
    bool ok = false;
    switch (s.inst->shuffle) {
      case ShuffleMode::xor_:
        from = int32_t(lane ^ n);
        ok = from <= int32_t(bound);
        break;
      case ShuffleMode::idx:
        from = int32_t((lane & segment) | (n & ~segment));
        ok = from <= int32_t(bound);
        break;
      case ShuffleMode::up:
        from = int32_t(lane) - int32_t(n);
        ok = from >= int32_t(bound);
        break;
      case ShuffleMode::down:
        from = int32_t(lane + n);
        ok = from <= int32_t(bound);
        break;
    }
    value[lane] = v[ok ? uint32_t(from) : lane];
    in_range[lane] = ok;
  }
  std::memcpy(w.write<uint32_t>(s.dst[0]), value, sizeof value);
  if (s.inst->dst.size() > 1) std::memcpy(w.write<uint32_t>(s.dst[1]), in_range, sizeof in_range);
}

void vote(Warp& w, const Step& s) {
  need_whole_warp(w);
  const uint32_t* p = w.read<uint32_t>(s.src[0]);
  uint32_t bits = 0, r = 0;
  for (uint32_t i = 0; i < 32; ++i) bits |= (p[i] & 1) << i;
  switch (s.inst->vote) {
    case VoteMode::all:
      r = bits == ~0u;
      break;
    case VoteMode::any:
      r = bits != 0;
      break;
    case VoteMode::uni:
      r = bits == 0 || bits == ~0u;
      break;
    case VoteMode::ballot:
      r = bits;
      break;
  }
  each_lane<uint32_t>(w, s.dst[0], [&](uint32_t) { return r; });
}

template <class T>
void match(Warp& w, const Step& s) {
  need_whole_warp(w);
  T v[32];
  std::memcpy(v, w.read<T>(s.src[0]), sizeof v);
  uint32_t mask[32]{};
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t j = 0; j < 32; ++j) mask[i] |= uint32_t(v[i] == v[j]) << j;
  bool all = mask[0] == ~0u;
  if (s.inst->match_all) {
    each_lane<uint32_t>(w, s.dst[0], [&](uint32_t) { return all ? ~0u : 0u; });
    each_lane<uint32_t>(w, s.dst[1], [&](uint32_t) { return uint32_t(all); });
  } else {
    each_lane<uint32_t>(w, s.dst[0], [&](uint32_t i) { return mask[i]; });
  }
}

template <class T>
void redux(Warp& w, const Step& s) {
  need_whole_warp(w);
  const T* v = w.read<T>(s.src[0]);
  T r = v[0];
  for (uint32_t i = 1; i < 32; ++i) switch (s.inst->atomic) {
      case Atomic::add:
        r = T(uint32_t(r) + uint32_t(v[i]));
        break;
      case Atomic::min:
        r = std::min(r, v[i]);
        break;
      case Atomic::max:
        r = std::max(r, v[i]);
        break;
      case Atomic::bit_and:
        r = T(r & v[i]);
        break;
      case Atomic::bit_or:
        r = T(r | v[i]);
        break;
      case Atomic::bit_xor:
        r = T(r ^ v[i]);
        break;
      default:
        w.fail(Kind::bad_operand, 0, "redux has no such operation");
    }
  each_lane<T>(w, s.dst[0], [&](uint32_t) { return r; });
}

void active_mask(Warp& w, const Step& s) {
  each_lane<uint32_t>(w, s.dst[0], [&](uint32_t) { return w.mask; });
}
void elect(Warp& w, const Step& s) {
  need_whole_warp(w);
  each_lane<uint32_t>(w, s.dst[0], [](uint32_t i) { return uint32_t(i == 0); });
}
void warp_sync(Warp& w, const Step&) {
  need_whole_warp(w);
  if (!w.cta->engine->clocks) return;
  ClockSum sum;
  for (uint32_t i = 0; i < 32; ++i) sum.add(w.clock[i], w.cta->cluster_thread(w, i));
  ClockPtr all = sum.take();
  for (auto& c : w.clock) c.known = all;
}

// --- barriers of the block ----------------------------------------------------------------------------------------
void publish(Warp& w, ClockSum& sum) {
  if (!w.cta->engine->clocks) return;
  for (uint32_t i = 0; i < 32; ++i) sum.add(w.clock[i], w.cta->cluster_thread(w, i));
}
void learn(Warp& w, const ClockPtr& what) {
  if (what)
    for (auto& c : w.clock) c.known = join(c.known, what);
}

void arrive(Warp& w, uint32_t id, uint32_t expected, bool wait) {
  need_whole_warp(w);
  Barrier& b = w.cta->barriers[id];
  if (b.expected && b.expected != expected)
    w.fail(Kind::bad_operand, 0,
           fmt::format("barrier {} expects {} threads, others came with {}", id, expected, b.expected));
  b.expected = expected;
  b.arrived += 32;
  publish(w, b.clocks);
  if (wait) {
    w.state = Warp::State::waiting;
    b.waiting.push_back(&w);
  }
  if (b.arrived < b.expected) return;
  if (b.arrived > b.expected)
    w.fail(Kind::bad_operand, 0,
           fmt::format("barrier {}: {} threads came, {} were expected", id, b.arrived, b.expected));
  // All threads have arrived: each one that waits learns what every one that arrived knew.
  ClockPtr all = w.cta->engine->clocks ? b.clocks.take() : nullptr;
  for (Warp* other : b.waiting) {
    other->state = Warp::State::ready;
    if (all)
      for (auto& c : other->clock) c.known = all;
    if (other->at->inst->op == Op::barrier_reduce) {
      ReduceMode mode = other->at->inst->reduce;
      uint32_t r = mode == ReduceMode::popc ? b.count : mode == ReduceMode::all ? b.count == b.expected : b.count != 0;
      each_lane<uint32_t>(*other, other->at->dst[0], [&](uint32_t) { return r; });
    }
  }
  b = {};
  ++w.cta->engine->events;
}
uint32_t expected(const Warp& w, const Inst& i) {
  return i.src.size() > 1 ? uint32_t(i.src[1].bits) : w.cta->engine->kernel.threads();
}
void barrier(Warp& w, const Step& s) { arrive(w, uint32_t(s.inst->src[0].bits) & 15, expected(w, *s.inst), true); }
void barrier_arrive(Warp& w, const Step& s) {
  arrive(w, uint32_t(s.inst->src[0].bits) & 15, expected(w, *s.inst), false);
}
void barrier_reduce(Warp& w, const Step& s) {
  need_whole_warp(w);
  const uint32_t* p = w.read<uint32_t>(s.src[0]);
  for (uint32_t i = 0; i < 32; ++i) w.cta->barriers[0].count += p[i] & 1;
  arrive(w, 0, w.cta->engine->kernel.threads(), true);
}

// --- the cluster barrier ------------------------------------------------------------------------------------------
void cluster_arrive(Warp& w, const Step& s) {
  need_whole_warp(w);
  Cluster& c = *w.cta->cluster;
  if (w.cluster_arrived) w.fail(Kind::bad_operand, 0, "arrives at the cluster barrier twice without waiting");
  w.cluster_arrived = true;
  w.cluster_ticket = c.phase;
  // A relaxed arrival publishes what a fence before it made ready.
  if (w.cta->engine->clocks)
    for (uint32_t i = 0; i < 32; ++i)
      if (s.inst->order != Order::relaxed || w.clock[i].fenced) c.clocks.add(w.clock[i], w.cta->cluster_thread(w, i));
  c.arrived += 32;
  if (c.arrived < uint32_t(c.blocks.size()) * w.cta->engine->kernel.threads()) return;
  c.arrived = 0;
  ++c.phase;
  if (w.cta->engine->clocks && !c.clocks.sum.empty()) c.done = c.clocks.take();
  for (Warp* other : c.waiting) {
    other->state = Warp::State::ready;
    learn(*other, c.done);
  }
  c.waiting.clear();
  ++w.cta->engine->events;
}
void cluster_wait(Warp& w, const Step&) {
  need_whole_warp(w);
  Cluster& c = *w.cta->cluster;
  if (!w.cluster_arrived) w.fail(Kind::bad_operand, 0, "waits at the cluster barrier without having arrived");
  w.cluster_arrived = false;
  if (c.phase != w.cluster_ticket) return learn(w, c.done);
  w.state = Warp::State::waiting;
  c.waiting.push_back(&w);
}

// --- promises and the schedule ------------------------------------------------------------------------------------
template <class T>
void assume_uniform(Warp& w, const Step& s) {
  const T* v = w.read<T>(s.src[0]);
  T first = v[w.first_active()];
  for (uint32_t i = 0; i < 32; ++i)
    if (w.active(i) && v[i] != first)
      w.fail(Kind::not_uniform, i,
             fmt::format("promised to be the same, but lane {} holds {} and lane {} holds {}", w.first_active(), +first,
                         i, +v[i]));
  Uniform across = s.inst->uniform;
  if (across < Uniform::warp) {
    // The n-th value of each warp must be the n-th of all. Beyond the cluster nothing is compared.
    uint32_t unit = across == Uniform::group   ? 1 + w.cta->rank * 64 + w.index / 4
                    : across == Uniform::block ? 100000 + w.cta->rank
                                               : 0;
    auto& values = w.cta->cluster->promised[{&s, unit}];
    uint32_t n = w.promises[&s]++;
    if (values.size() == n)
      values.push_back(uint64_t(first));
    else if (n < values.size() && T(values[n]) != first)
      w.fail(
          Kind::not_uniform, w.first_active(),
          fmt::format("promised to be the same across warps, but one holds {} and this one {}", +T(values[n]), +first));
  }
  each_lane<T>(w, s.dst[0], [&](uint32_t) { return first; });
}
void nanosleep(Warp& w, const Step&) { w.yielded = true; }
void trap(Warp& w, const Step&) { w.fail(Kind::trap, w.first_active(), "trap"); }
// The launches before this one have ended already; what matters is which accesses are ordered behind the wait.
void grid_wait(Warp& w, const Step&) {
  if (!w.cta->engine->options.chain) return;
  w.cta->waited = true;
  for (uint32_t i = 0; i < 32; ++i)
    if (w.active(i)) w.cta->cluster->waits.push_back({w.cta->cluster_thread(w, i), w.clock[i].own});
  w.after_wait |= w.mask;
}
void grid_launch(Warp& w, const Step&) {
  if (!w.cta->engine->options.chain) return;
  for (uint32_t i = 0; i < 32; ++i)
    if (w.active(i) && !w.cta->engine->after_wait(w, i)) w.cta->started_next = true;
}
void read_clock(Warp& w, const Step& s) {
  uint64_t now = w.cta->engine->stats.warp_instructions;
  each_lane<uint64_t>(w, s.dst[0], [&](uint32_t) { return now; });
}

}  // namespace

Exec across(const Inst& i) {
  switch (i.op) {
    case Op::mov:
      if (i.src[0].kind == Operand::Kind::special &&
          (i.src[0].special == Special::clock || i.src[0].special == Special::globaltimer))
        return read_clock;
      return nullptr;
    case Op::shuffle:
      return shuffle;
    case Op::vote:
      return vote;
    case Op::match:
      return size_of(i.type) == 8 ? match<uint64_t> : match<uint32_t>;
    case Op::redux:
      return i.type == Type::s32 ? redux<int32_t> : redux<uint32_t>;
    case Op::active_mask:
      return active_mask;
    case Op::elect:
      return elect;
    case Op::warp_sync:
      return warp_sync;
    case Op::barrier:
      return barrier;
    case Op::barrier_arrive:
      return barrier_arrive;
    case Op::barrier_reduce:
      return barrier_reduce;
    case Op::cluster_arrive:
      return cluster_arrive;
    case Op::cluster_wait:
      return cluster_wait;
    case Op::grid_wait:
      return grid_wait;
    case Op::grid_launch:
      return grid_launch;
    case Op::nanosleep:
      return nanosleep;
    case Op::assume_uniform:
      switch (register_bytes(i.type)) {
        case 0:
          return assume_uniform<uint32_t>;  // predicates
        case 2:
          return assume_uniform<uint16_t>;
        case 4:
          return assume_uniform<uint32_t>;
        default:
          return assume_uniform<uint64_t>;
      }
    case Op::trap:
      return trap;
    default:
      return nullptr;
  }
}

}  // namespace heddle::ptx::machine
