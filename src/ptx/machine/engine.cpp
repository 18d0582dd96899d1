// Which warp runs next. Blocks come in clusters; as many clusters as allowed are alive, and each gets turns.
#include <algorithm>
#include <numeric>

#include "ptx/machine/cta.h"
#include "ptx/machine/wgmma.h"

namespace heddle::ptx::machine {
namespace {

constexpr uint32_t turn_steps = 2048;  // of a warp before another one runs

uint32_t predicate_bits(const uint32_t* p) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < 32; ++i) bits |= (p[i] & 1) << i;
  return bits;
}

uint64_t special_value(const Warp& w, Special s, uint32_t lane) {
  const Engine& e = *w.cta->engine;
  const Kernel& k = e.kernel;
  const Cta& c = *w.cta;
  uint32_t t = w.thread(lane);
  switch (s) {
    case Special::tid_x:
      return t % k.threads_x;
    case Special::tid_y:
      return t / k.threads_x % k.threads_y;
    case Special::tid_z:
      return t / k.threads_x / k.threads_y;
    case Special::ntid_x:
      return k.threads_x;
    case Special::ntid_y:
      return k.threads_y;
    case Special::ntid_z:
      return k.threads_z;
    case Special::ctaid_x:
      return c.id.x;
    case Special::ctaid_y:
      return c.id.y;
    case Special::ctaid_z:
      return c.id.z;
    case Special::nctaid_x:
      return e.grid.x;
    case Special::nctaid_y:
      return e.grid.y;
    case Special::nctaid_z:
      return e.grid.z;
    case Special::lane:
      return lane;
    case Special::warp:
      return t % k.threads_x / 32;
    case Special::group:
      return t % k.threads_x / 128;
    case Special::cluster_rank:
      return c.rank;
    case Special::cluster_blocks:
      return k.cluster();
    case Special::clusterid_x:
      return c.id.x / k.cluster_x;
    case Special::clusterid_y:
      return c.id.y / k.cluster_y;
    case Special::clusterid_z:
      return c.id.z / k.cluster_z;
    case Special::smid:
      return c.id.x % 132;
    case Special::clock:
    case Special::globaltimer:
      return 0;  // read when executed
  }
  return 0;
}

}  // namespace

uint32_t Cta::cluster_thread(const Warp& w, uint32_t lane) const {
  return rank * engine->kernel.threads() + w.thread(lane);
}
uint32_t Cta::copy_engine() const { return uint32_t(cluster->blocks.size()) * engine->kernel.threads() + rank; }

void Warp::fail(Report::Kind kind, uint32_t lane, const std::string& what) const {
  static const Inst nowhere{};
  const Inst& i = at ? *at->inst : nowhere;
  throw Report(kind, what, cta->engine->kernel.name, i.file, i.line, cta->id, thread(lane));
}

Engine::Engine(const Program& p, Grid g, const void* a, size_t bytes, Memory& m, const InterpretOptions& o)
    : program(p), kernel(p.kernel), grid(g), args(bytes), memory(m), options(o), rng(o.seed) {
  if (bytes) std::memcpy(args.data(), a, bytes);
  regions = m.regions();
  bool uses_shared = kernel.shared_bytes || kernel.dynamic_shared;
  races = o.races && uses_shared;
  clocks = races || (o.chain && o.chain->overlaps());
  zero_ = std::make_shared<Clock>(size_t(kernel.cluster()) * (kernel.threads() + 1));
}

bool Engine::after_wait(Warp& w, uint32_t lane) {
  if (w.after_wait >> lane & 1) return true;
  const Clock& known = *w.clock[lane].known;
  for (const Cluster::Wait& wait : w.cta->cluster->waits)
    if (known[wait.thread] >= wait.count) {
      w.after_wait |= 1u << lane;
      return true;
    }
  return false;
}

uint8_t* Engine::global(Warp& w, uint32_t lane, uint64_t address, uint64_t bytes, uint32_t align, GlobalAccess what) {
  if (address % align)
    w.fail(Report::Kind::misaligned, lane, fmt::format("global address {:#x} is not a multiple of {}", address, align));
  auto inside = [&](const std::pair<uint64_t, uint64_t>& r) {
    return address >= r.first && address - r.first <= r.second - r.first && bytes <= r.second - address;
  };
  if (!last_region || !inside(*last_region)) {
    auto it = std::upper_bound(regions.begin(), regions.end(), address,
                               [](uint64_t a, const auto& r) { return a < r.first; });
    if (it == regions.begin() || !inside(*--it)) {
      std::string near = "there is no buffer";
      if (!regions.empty()) {
        if (address < it->first || it + 1 == regions.end() || address - it->first < (it + 1)->first - address)
          near = fmt::format("the nearest buffer has {} bytes, the access is at byte {} of it", it->second - it->first,
                             int64_t(address - it->first));
        else
          near = fmt::format("the nearest buffer begins {} bytes later", (it + 1)->first - address);
      }
      w.fail(Report::Kind::out_of_bounds, lane,
             fmt::format("{} bytes at global address {:#x}: {}", bytes, address, near));
    }
    last_region = &*it;
  }
  if (options.chain)
    if (const std::string wrong = options.chain->access(address, bytes, what, after_wait(w, lane)); !wrong.empty())
      w.fail(Report::Kind::overlap, lane, wrong);
  return reinterpret_cast<uint8_t*>(address);
}

void Engine::start(Warp& w, Cta& cta, uint32_t index) {
  auto& file = cta.files[index];
  file.resize(program.file_bytes / 8 + 8);
  w = Warp();
  w.mask = ~0u;
  w.regs = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(file.data()) + 63) & ~uintptr_t(63));
  w.constants = program.constants.data();
  w.cta = &cta;
  w.index = index;
  for (auto& c : w.clock) c.known = zero_;
  if (!options.chain || !options.chain->overlaps()) w.after_wait = ~0u;
  for (auto& [s, row] : program.specials) {
    bool wide = s == Special::clock || s == Special::globaltimer;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint64_t v = special_value(w, s, lane);
      if (wide)
        w.write<uint64_t>(row)[lane] = v;
      else
        w.write<uint32_t>(row)[lane] = uint32_t(v);
    }
  }
}

void Engine::start(Cluster& c, uint64_t index) {
  uint32_t cx = grid.x / kernel.cluster_x, cy = grid.y / kernel.cluster_y;
  Grid at{uint32_t(index % cx) * kernel.cluster_x, uint32_t(index / cx % cy) * kernel.cluster_y,
          uint32_t(index / cx / cy) * kernel.cluster_z};
  uint32_t warps = kernel.threads() / 32;
  c.blocks.resize(kernel.cluster());
  c.phase = c.arrived = 0;
  c.waiting.clear();
  c.clocks = {};
  c.done = nullptr;
  c.promised.clear();
  c.published.clear();
  c.waits.clear();
  c.live = kernel.cluster() * warps;
  uint32_t shared_bytes =
      kernel.dynamic_shared ? dynamic_shared_offset(kernel) + options.dynamic_shared_bytes : kernel.shared_bytes;
  for (uint32_t rank = 0; rank < kernel.cluster(); ++rank) {
    Cta& b = c.blocks[rank];
    b.engine = this;
    b.cluster = &c;
    b.rank = rank;
    b.id = {at.x + rank % kernel.cluster_x, at.y + rank / kernel.cluster_x % kernel.cluster_y,
            at.z + rank / kernel.cluster_x / kernel.cluster_y};
    b.shared.reset(shared_bytes);
    b.barriers = {};
    b.mbarriers.clear();
    b.loads.clear();
    b.arrivals.clear();
    b.engine_count = 0;
    b.waited = b.started_next = false;
    b.live = warps;
    b.files.resize(warps);
    b.warps.resize(warps);
    for (uint32_t i = 0; i < warps; ++i) start(b.warps[i], b, i);
  }
}

void Engine::go(Warp& w, uint32_t budget) {
  const Step* steps = program.steps.data();
  const uint32_t end = uint32_t(program.steps.size());
  uint64_t lanes = 0, count = 0;
  while (budget--) {
    if (w.pc == end) {
      w.state = Warp::State::done;
      --w.cta->live;
      --w.cta->cluster->live;
      ++events;
      break;
    }
    const Step& s = steps[w.pc++];
    switch (s.control) {
      case Control::none:
        w.at = &s;
        ++count;
        lanes += uint32_t(__builtin_popcount(w.mask));
        s.exec(w, s);
        if (w.state != Warp::State::ready || w.yielded) budget = 0;
        break;
      case Control::when: {
        uint32_t p = predicate_bits(w.read<uint32_t>(s.src[0]));
        w.frames.push_back({w.mask, w.mask & ~p});
        w.mask &= p;
        if (!w.mask) w.pc = s.target;
        break;
      }
      case Control::otherwise:
        w.mask = w.frames.back().other;
        if (!w.mask) w.pc = s.target;
        break;
      case Control::end_when:
      case Control::end:
        w.mask = w.frames.back().outer;
        w.frames.pop_back();
        break;
      case Control::loop:
        w.frames.push_back({w.mask, 0});
        break;
      case Control::test:
        w.mask &= predicate_bits(w.read<uint32_t>(s.src[0]));
        if (!w.mask) w.pc = s.target;
        break;
      case Control::again:
        w.pc = s.target;
        break;
    }
  }
  stats.warp_instructions += count;
  stats.lane_instructions += lanes;
}

// One turn for every warp of the cluster; true if one of them did more than an unsuccessful poll.
bool Engine::turn(Cluster& c) {
  bool busy = false;
  std::vector<Warp*> order;
  for (auto& b : c.blocks)
    for (auto& w : b.warps) order.push_back(&w);
  if (options.seed) std::shuffle(order.begin(), order.end(), rng);
  for (Warp* w : order) {
    if (w->state != Warp::State::ready) continue;
    w->yielded = false;
    uint64_t before = events;
    go(*w, options.seed ? 1 + uint32_t(rng() % 64) : turn_steps);
    busy |= !w->yielded || events != before;
  }
  return busy;
}

void Engine::stuck(Report::Kind kind) {
  uint32_t waiting = 0, polling = 0, ended = 0;
  const Warp *at_barrier = nullptr, *poller = nullptr;
  for (auto* c : alive_)
    for (auto& b : c->blocks)
      for (auto& w : b.warps) {
        if (w.state == Warp::State::waiting) {
          ++waiting;
          if (!at_barrier) at_barrier = &w;
        } else if (w.state == Warp::State::ready) {
          ++polling;
          if (!poller) poller = &w;
        } else {
          ++ended;
        }
      }
  const Warp* w = at_barrier ? at_barrier : poller;
  std::string what = kind == Report::Kind::no_progress ? "warps run on but nothing is written and no thread arrives"
                     : at_barrier                      ? "a barrier that some threads never reach"
                                                       : "waits for what never comes";
  w->fail(kind, w->first_active(),
          fmt::format("{}: of {} warps alive {} wait at a barrier, {} poll, {} have ended; warp {} is at {}", what,
                      waiting + polling + ended, waiting, polling, ended, w->index,
                      w->at ? name(w->at->inst->op) : "its beginning"));
}

bool Engine::round() {
  const uint64_t clusters =
      uint64_t(grid.x / kernel.cluster_x) * (grid.y / kernel.cluster_y) * (grid.z / kernel.cluster_z);
  const size_t max_alive = std::max<size_t>(1, options.resident_blocks / kernel.cluster());
  while (alive_.size() < max_alive && next_ < clusters) {
    if (spare_.empty()) spare_.push_back(&pool_.emplace_back());
    start(*spare_.back(), next_++);
    alive_.push_back(spare_.back());
    spare_.pop_back();
  }
  done_ = alive_.empty();
  bool busy = false;
  for (size_t i = 0; i < alive_.size();) {
    // A cluster runs until it is done, waits, or spins on what another one must write: its registers stay in the
    // cache.
    uint64_t before = events;
    for (uint32_t quiet = 0; alive_[i]->live && quiet < 8 && turn(*alive_[i]); ++quiet) {
      busy = true;
      if (events != before) {
        before = events;
        quiet = 0;
      }
      if (options.seed) break;
    }
    if (alive_[i]->live) {
      ++i;
    } else {
      busy = true;
      if (options.chain)
        for (const Cta& b : alive_[i]->blocks) options.chain->block_ended(b.waited, b.started_next);
      spare_.push_back(alive_[i]);
      alive_.erase(alive_.begin() + std::ptrdiff_t(i));
    }
  }
  return busy;
}

void run(std::span<const std::vector<Engine*>> queues) {
  struct Queue {
    std::span<Engine* const> left;
  };
  std::vector<Queue> waiting;
  for (const std::vector<Engine*>& queue : queues)
    if (!queue.empty()) waiting.push_back({queue});
  if (waiting.empty()) return;
  Engine& first = *waiting.front().left.front();
  const InterpretOptions& options = first.options;
  uint64_t idle_since = 0, idle_events = 0;
  uint32_t idle_rounds = 0;
  while (true) {
    if (options.seed && waiting.size() > 1) std::shuffle(waiting.begin(), waiting.end(), first.rng);
    bool busy = false;
    for (Queue& queue : waiting) {
      busy |= queue.left.front()->round();
      if (!queue.left.front()->done()) continue;
      queue.left = queue.left.subspan(1);
      busy = true;
    }
    std::erase_if(waiting, [](const Queue& queue) { return queue.left.empty(); });
    if (waiting.empty()) return;
    uint64_t events = 0, steps = 0;
    for (const std::vector<Engine*>& queue : queues)
      for (const Engine* engine : queue) {
        events += engine->events;
        steps += engine->stats.warp_instructions;
      }
    // A poll can take several short turns to look again, so only many rounds without progress are a deadlock.
    idle_rounds = busy ? 0 : idle_rounds + 1;
    Engine& stuck = *waiting.front().left.front();
    if (idle_rounds > (options.seed ? 1000u : 4u)) stuck.stuck(Report::Kind::deadlock);
    if (events != idle_events) {
      idle_events = events;
      idle_since = steps;
    } else if (steps - idle_since > options.max_idle_steps) {
      stuck.stuck(Report::Kind::no_progress);
    }
  }
}

}  // namespace heddle::ptx::machine
