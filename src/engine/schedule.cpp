// A sequence with rows in the batch keeps its blocks until the batch is computed. All others may lose theirs to a
// sequence that ranks higher.
#include "engine/schedule.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"

namespace heddle::engine {
namespace {

constexpr double stall_used = 0.7;  // the share of max_stall that is planned for: batches vary
constexpr double equal_extra = 1;   // instead of min_extra, if streams alone take longer than max_stall
constexpr double without_streams =
    10;  // times max_stall, if there are no streams: still short for a request that arrives or ends
constexpr double min_prompt_step = 4;  // times a step of one row: a shorter one is mostly its fixed cost
constexpr uint32_t first_scored = 8;   // rows with prompt logits beside streams, before their time was measured

constexpr double head_start = 1;   // seconds of the device
constexpr uint64_t much_more = 2;  // times the blocks of another client: some have to make way

bool by_rank(const Sequence* a, const Sequence* b) { return outranks(*a, *b); }

// Whether `a` is preempted before `b`, where they do not rank alike.
bool yields_before(const Sequence& a, const Sequence& b) {
  const auto key = [](const Sequence& s) {
    const bool first = &s == s.client->first;  // of these, the one that came last: it has lost the least
    return std::tuple(s.task.request.priority, first, first ? 0 : ~s.client->held, s.ordinal() == 0);
  };
  return key(a) < key(b);
}

}  // namespace

const Sequence* Client::next() const {
  const Sequence* waits = waiting.empty() ? nullptr : *waiting.begin();
  const Sequence* runs = prompts.empty() ? nullptr : prompts.front();
  return !waits || (runs && Earlier()(runs, waits)) ? runs : waits;
}

void Schedule::arrive(Sequence& s) {
  const auto [entry, is_new] = clients_.try_emplace(s.task.request.client);
  Client& client = entry->second;
  if (client.idle()) client.served = std::max(client.served, served_ - head_start);
  if (is_new) client.served = served_ - head_start;
  ++client.pending;
  s.client = &client;
}

void Schedule::wait(Sequence& s) {
  if (s.state == Sequence::State::pending) --s.client->pending;
  s.state = Sequence::State::waiting;
  s.client->waiting.insert(&s);
  ++waiting_;
}

void Schedule::run(Sequence& s) {
  if (s.state == Sequence::State::pending) --s.client->pending;
  s.state = Sequence::State::running;
  ++s.client->running;
  s.admitted_known = s.known();
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &s, by_rank), &s);
}

void Schedule::remove(Sequence& s) {
  if (s.state == Sequence::State::pending) --s.client->pending;
  if (s.state == Sequence::State::waiting) waiting_ -= s.client->waiting.erase(&s);
  if (s.state != Sequence::State::running) return;
  --s.client->running;
  running_.erase(std::find(running_.begin(), running_.end(), &s));
}

Queue Schedule::queue() const {
  Queue queue;
  for (const auto& [id, client] : clients_)
    if (const size_t sequences = client.waiting.size() + client.pending; sequences > 0) queue.add(id, sequences);
  return queue;
}

std::span<const Planned> Schedule::plan() {
  begin_long_texts();
  choose_length();
  make_plan();
  // where all that can be computed are of the other length, perhaps admitted just now
  if (plan_.empty() && short_text_) {
    long_texts_ = !long_texts_;
    make_plan();
  }
  return plan_;
}

void Schedule::make_plan() {
  ++step_;
  plan_.clear();
  load_ = {};
  being_computed_.clear();
  count_clients();
  make_way();
  plan_streams();
  const uint32_t rows_of_streams = uint32_t(load_.rows);
  const double streams = pace_.usual(load_);
  // Long streams may be far beyond all that was measured: an estimate that only batches of prompts support must not
  // give twice its time away.
  const bool slow_streams = std::min(streams, last_with_streams_) > max_stall_;
  const double extra = slow_streams ? equal_extra : min_extra;
  const double alone = std::max(without_streams * max_stall_, min_prompt_step * pace_.usual(Load().with(1, 0)));
  const double seconds = streams_.empty() ? alone : std::max(stall_used * max_stall_, (1 + extra) * streams);
  scored_left_ = streams_.empty() ? max_scored_ : scored_within((1 - stall_used) * max_stall_);
  plan_prompts(seconds);
  plan_proposals(seconds);
  plain_streams_ = load_.rows == rows_of_streams && load_.rows == plan_.size() ? rows_of_streams : 0;
  // Sequences with one row first: a device has a kernel for these, which is faster if they are contiguous.
  std::stable_partition(plan_.begin(), plan_.end(),
                        [](const Planned& p) { return p.rows == 1 && p.sequence->proposed.empty(); });
  for (const Planned& p : plan_) {
    if (p.sequence->proposed.empty()) cache_.drop_copy(*p.sequence);
    shares_.push_back({p.sequence->client, p.rows + p.sequence->proposed.size()});
  }
}

// A text that has become long is computed again: the keys of its tokens so far are those of a short one.
void Schedule::begin_long_texts() {
  if (!short_text_) return;
  for (const std::vector<Sequence*> running = running_; Sequence * s : running)
    if (is_long(*s) && !s->long_text) preempt(*s);
}

// A batch has long texts or short ones, not both: where there are both, they take turns.
void Schedule::choose_length() {
  if (!short_text_) return;
  const auto is = [](const Sequence* s) { return s->long_text; };
  const bool any_long = std::any_of(running_.begin(), running_.end(), is);
  const bool any_short = !std::all_of(running_.begin(), running_.end(), is);
  if (any_long || any_short) long_texts_ = any_long && any_short ? !long_texts_ : any_long;
}

// Counts the blocks of each client, sorts the clients by turn, and separates streams from prompts.
void Schedule::count_clients() {
  shares_.clear();
  turns_.clear();
  streams_.clear();
  std::erase_if(clients_, [&](const auto& entry) {  // forgotten: a returning client would get the same turn
    return entry.second.idle() && entry.second.served <= served_ - head_start;
  });
  for (auto& [id, client] : clients_) {
    client.held = 0;
    client.first = nullptr;
    client.prompts.clear();
    client.next_prompt = 0;
    if (!client.idle()) turns_.push_back(&client);
  }
  for (Sequence* s : running_) {
    Client& client = *s->client;
    s->proposed.clear();
    client.held += held_by(*s);
    if (!client.first || (client.first->ordinal() > 0 && s->ordinal() == 0)) client.first = s;
    if (s->long_text == long_texts_) (s->streaming() ? streams_ : client.prompts).push_back(s);
  }
  for (Client* client : turns_) {
    std::sort(client->prompts.begin(), client->prompts.end(), Earlier());
    const Sequence* next = client->next();
    client->turn = std::max(client->served, served_ - head_start) - (next ? next->task.request.priority : 0);
  }
  std::sort(turns_.begin(), turns_.end(), [](const Client* a, const Client* b) {
    if (a->turn != b->turn) return a->turn < b->turn;
    if (a->running != b->running) return a->running < b->running;
    const Sequence *first = a->next(), *second = b->next();
    return first && (!second || Earlier()(first, second));
  });
}

// Before streams have their rows: admits sequences for which others have to make way, one of each client at most.
void Schedule::make_way() {
  using Room = KvCache::Room;
  Room promised;  // to those that will be admitted without
  for (Client* client : turns_) {
    if (client->waiting.empty()) continue;
    Sequence& s = **client->waiting.begin();
    const Room own = cache_.room_for(s.known());
    const auto fits = [&](const Room& freed) {
      return running_.empty() || (room_promised() + promised + own).fits_into(cache_.free() + freed);
    };
    if (fits({})) {
      promised = promised + own;
      continue;
    }
    Room freed;  // at most: some blocks may be shared
    for (const Sequence* other : running_)
      if (has_to_make_way(*other, s)) freed = freed + cache_.room_of(*other) + Room{1, 1, 0};
    if (!fits(freed)) continue;
    for (Sequence* other = first_to_make_way(s); other && !fits({}); other = first_to_make_way(s)) preempt(*other);
    if (fits({}) && admit(s))
      client->prompts.insert(std::upper_bound(client->prompts.begin(), client->prompts.end(), &s, Earlier()), &s);
  }
}

// A preempted client cannot take the blocks back at once: by then it holds half as much, or the sequence is still one
// of its later completions. The first sequence of a client is spared until what would be computed again is no more than
// what it has gained since it was admitted: so even if there is always a new client, it ends after twice the work.
bool Schedule::has_to_make_way(const Sequence& other, const Sequence& s) const {
  if (&other == other.client->first && !other.is_worth_its_prompt()) return false;
  if (other.task.request.priority > s.task.request.priority) return false;
  if (other.client == s.client) return s.ordinal() == 0 && other.ordinal() > 0;
  const uint64_t wanted = cache_.blocks_for(s.known()) + slot_blocks_;
  return much_more * (s.client->held + wanted) <= other.client->held;
}

Sequence* Schedule::first_to_make_way(const Sequence& s) const {
  Sequence* found = nullptr;
  for (auto other = running_.rbegin(); other != running_.rend(); ++other)
    if (has_to_make_way(**other, s) && (!found || yields_before(**other, *found))) found = *other;
  return found;
}

// The batch's time is that of its rows, which is about right: the longer a sequence, the longer its rows take, too.
void Schedule::charge(double seconds) {
  if (turns_.empty() || load_.rows == 0) return;
  served_ += seconds / double(turns_.size());
  for (const Share& share : shares_) share.client->served += seconds * double(share.rows) / double(load_.rows);
}

bool Schedule::only_streams() const {
  return waiting_ == 0 && !plan_.empty() && plan_.size() == running_.size() &&
         std::all_of(plan_.begin(), plan_.end(), [](const Planned& p) {
           return p.sequence->streaming() && p.rows == 1 && p.sequence->proposed.empty();
         });
}

void Schedule::add(Sequence& s, uint32_t rows) {
  s.planned_step = step_;
  load_ = load_.with(rows, s.computed);
  plan_.push_back({&s, rows});
}

// Where nothing else is to be computed, and none of those that wait for their turn could lose its blocks.
bool Schedule::streams_can_take_turns() const {
  return rows_in_groups_ && !draft_ && waiting_ == 0 && running_.size() == streams_.size() &&
         std::all_of(streams_.begin(), streams_.end(), [](const Sequence* s) { return s->behind() == 1; }) &&
         room_promised().fits_into(cache_.free());
}

void Schedule::plan_streams() {
  // If there are more streams than rows, they take turns.
  const bool others = waiting_ > 0 || running_.size() > streams_.size();
  uint32_t max_rows = limits_.rows - (others ? std::max(1u, limits_.rows / 8) : 0);
  if (streams_can_take_turns()) max_rows = std::min(max_rows, stream_turns_.rows_for(uint32_t(streams_.size())));
  size_t rows = 0;
  for (const Sequence* s : streams_) rows += s->behind();
  if (rows > max_rows)
    std::stable_sort(streams_.begin(), streams_.end(),
                     [](const Sequence* a, const Sequence* b) { return a->planned_step < b->planned_step; });
  for (Sequence* s : streams_) {
    if (load_.rows == max_rows) return;
    if (s->state == Sequence::State::running && make_room(*s, s->known()))
      add(*s, std::min(s->behind(), max_rows - uint32_t(load_.rows)));
  }
}

// One of each client, then again one of each.
void Schedule::plan_prompts(double seconds) {
  const size_t streams = plan_.size();
  const uint64_t preemptions = preemptions_;
  bool full = false;  // after a preemption nothing is admitted in the same step
  for (bool more = true; more;) {
    more = false;
    for (Client* client : turns_) {
      full = full || preemptions_ > preemptions;
      Sequence* s = next_prompt(*client, full);
      if (!s) continue;
      more = true;
      if (!plan_prompt(*s, seconds, plan_.size() > streams)) return;
    }
  }
}

// Null: it has no more. A waiting one is admitted.
Sequence* Schedule::next_prompt(Client& client, bool& full) {
  const std::vector<Sequence*>& prompts = client.prompts;
  size_t& next = client.next_prompt;
  while (next < prompts.size() && (prompts[next]->state != Sequence::State::running || is_planned(*prompts[next])))
    ++next;  // preempted
  Sequence* s = next < prompts.size() ? prompts[next] : nullptr;
  if (!full && !client.waiting.empty() && (!s || Earlier()(*client.waiting.begin(), s))) {
    Sequence* waits = *client.waiting.begin();
    full = !admit(*waits);
    if (!full) return waits;
  }
  if (!s) return nullptr;
  ++next;
  cache_.reuse_blocks(*s);
  return s;
}

// False: there is no time left for another. `others`: the batch has prompts already.
bool Schedule::plan_prompt(Sequence& s, double seconds, bool others) {
  if (s.long_text != long_texts_) return true;  // it was admitted, and waits for its turn
  const uint64_t block = cache_.has_states() ? 0 : cache_.next_block(s);
  if (block && cache_.can_reuse_next(s) && is_being_computed(block)) return true;
  if (awaits_snapshot(s)) return true;
  cache_.reuse_partial(s);
  const uint32_t possible =
      std::min({s.behind(), rows_left(), rows_by_scored(s), cache_.next_snapshot(s) - s.computed});
  if (possible == 0) return rows_left() > 0;
  if (whole_prompts_ && possible < s.behind()) return true;  // a shorter one may fit
  uint32_t rows = pace_.rows_within(seconds, load_, s.computed, possible);
  if (whole_prompts_ && rows < possible) rows = others ? 0 : possible;
  if (rows == 0 && others) return false;
  rows = std::max(rows, 1u);
  if (!make_room(s, s.computed + rows)) return true;
  if (block) being_computed_.push_back(block);
  scored_left_ -= scored_rows(s, rows);
  add(s, rows);
  return rows == possible && rows_left() > 0;
}

void Schedule::learn(const Load& load, double seconds) {
  ++batches_;
  charge(seconds);
  pace_.learn(load, seconds);
  if (!streams_.empty()) last_with_streams_ = seconds;
  stream_turns_.learn(plain_streams_, seconds);
}

void Schedule::learn_scoring(double seconds, uint32_t rows) {
  const double each = seconds / rows;
  score_seconds_ = score_seconds_ ? *score_seconds_ + 0.25 * (each - *score_seconds_) : each;
}

uint32_t Schedule::scored_within(double seconds) const {
  if (!score_seconds_) return first_scored;
  return *score_seconds_ * max_scored_ <= seconds ? max_scored_ : std::max(1u, uint32_t(seconds / *score_seconds_));
}

// How many of its next rows send prompt logits.
uint32_t Schedule::scored_rows(const Sequence& s, uint32_t rows) const {
  const PromptResults::Range scored = s.task.results.logits();
  const uint32_t from = std::max(scored.from, s.computed), to = std::min(scored.to, s.computed + rows);
  return to > from ? to - from : 0;
}

// How many of its next rows the batch can take, so that no more than scored_left_ send logits.
uint32_t Schedule::rows_by_scored(const Sequence& s) const {
  const uint32_t scored = scored_rows(s, s.behind());
  return scored <= scored_left_ ? s.behind() : s.task.results.logits().to - (scored - scored_left_) - s.computed;
}

bool Schedule::is_being_computed(uint64_t block) const {
  return std::find(being_computed_.begin(), being_computed_.end(), block) != being_computed_.end();
}

// Whether a sequence of the batch is on its way to a snapshot that this one can begin with.
bool Schedule::awaits_snapshot(const Sequence& s) const {
  if (!cache_.has_states() || !cache_.shares(s)) return false;
  return std::any_of(plan_.begin(), plan_.end(), [&](const Planned& p) {
    const Sequence& other = *p.sequence;
    if (other.streaming() || other.long_text != s.long_text) return false;
    const uint32_t position = cache_.next_snapshot(other);
    return position > s.computed && position <= s.next_wanted() &&
           std::equal(s.tokens.begin(), s.tokens.begin() + position, other.tokens.begin());
  });
}

// To the running sequences: what their known tokens need, and some for each to grow into.
KvCache::Room Schedule::room_promised() const {
  KvCache::Room needed = cache_.room_to_grow(uint32_t(running_.size()));
  for (const Sequence* s : running_) needed = needed + cache_.room_for(s->known()).without(cache_.room_of(*s));
  return needed;
}

// There must be blocks for all its known tokens, beside those that are promised, and a slot if it has a state.
bool Schedule::admit(Sequence& s) {
  const KvCache::Room needed = room_promised(), own = cache_.room_for(s.known());
  if (!running_.empty() && !(needed + cache_.room_for(1)).fits_into(cache_.free())) return false;
  if (!cache_.room_for(1).fits_into(cache_.free())) return false;
  s.long_text = is_long(s);
  cache_.release(s);  // it has none: this sets where its text begins
  cache_.reuse_blocks(s);
  if (!running_.empty() && !(needed + own.without(cache_.room_of(s))).fits_into(cache_.free())) {
    cache_.release(s);
    return false;
  }
  cache_.restore(s);
  s.task.fetch.reset();
  check(cache_.take_slot(s), "a slot is free");
  remove(s);
  run(s);
  return true;
}

bool Schedule::make_room(Sequence& s, uint32_t tokens) {
  while (!cache_.grow(s, tokens)) {
    // of those without rows in the batch, of which at least `s` itself is one
    Sequence* victim = nullptr;
    for (auto other = running_.rbegin(); other != running_.rend(); ++other)
      if (!is_planned(**other) && (!victim || yields_before(**other, *victim))) victim = *other;
    if (victim == &s) return false;
    preempt(*victim);
  }
  return true;
}

void Schedule::preempt(Sequence& s) {
  ++preemptions_;
  s.client->held -= std::min<uint64_t>(s.client->held, held_by(s));
  remove(s);
  cache_.release(s);
  if (draft_) draft_->release(s);
  wait(s);
}

}  // namespace heddle::engine
