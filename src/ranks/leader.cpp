#include "ranks/leader.h"

#include <type_traits>

#include "model/forward.h"
#include "ranks/batch_code.h"

namespace heddle::ranks {
namespace {

using Kind = Message::Kind;

class Leader : public model::Backend {
 public:
  Leader(std::unique_ptr<model::Backend> own, Group& group) : own_(std::move(own)), group_(group) {}

  std::string describe() const override {
    return fmt::format("{} on each of {} ranks", own_->describe(), group_.ranks());
  }

  void begin(const model::Batch& batch) override {
    guarded([&] {
      group_.send(Kind::batch, encoder_.encode(batch, std::exchange(taken_, 0)));
      own_->begin(batch);
    });
  }
  void embed() override {
    guarded([&] { own_->embed(); });
  }
  void compute(uint32_t layer, uint32_t sublayer) override {
    guarded([&] { own_->compute(layer, sublayer); });
  }
  void add(uint32_t layer, uint32_t sublayer) override {
    guarded([&] { own_->add(layer, sublayer); });
  }
  void keep_states() override {
    guarded([&] { own_->keep_states(); });
  }
  void head() override {
    guarded([&] { own_->head(); });
  }
  void allow(std::span<const std::span<const uint32_t>> masks) override {
    guarded([&] {
      bytes_.clear();
      encode_masks(masks, bytes_);
      group_.send(Kind::allow, bytes_);
      own_->allow(masks);
    });
  }
  model::Result result() override {
    return guarded([&] {
      const model::Result result = own_->result();
      ++taken_;
      return result;
    });
  }

  bool can_pick(const model::Picking& picking) const override { return own_->can_pick(picking); }
  uint32_t max_in_flight() const override { return own_->max_in_flight(); }
  uint32_t max_followed_rows() const override { return own_->max_followed_rows(); }
  uint32_t max_followed_changes() const override { return own_->max_followed_changes(); }

  void copy_block(uint32_t from, uint32_t to) override {
    copy(Kind::copy_block, from, to, [&] { own_->copy_block(from, to); });
  }
  void copy_window_block(uint32_t from, uint32_t to) override {
    copy(Kind::copy_window_block, from, to, [&] { own_->copy_window_block(from, to); });
  }
  void copy_state(uint32_t from, uint32_t to) override {
    copy(Kind::copy_state, from, to, [&] { own_->copy_state(from, to); });
  }
  bool usable() const override { return !group_.alarm().raised() && own_->usable(); }
  std::vector<model::KernelTime> kernel_times() override { return own_->kernel_times(); }

 private:
  // What fails here leaves the other ranks in the middle of a batch: the group cannot go on.
  template <class Work>
  std::invoke_result_t<Work> guarded(Work&& work) {
    group_.alarm().expect_quiet();
    try {
      return work();
    } catch (const std::exception& error) {
      group_.fail(error.what());
      throw Error("{}", group_.alarm().why());
    }
  }
  void copy(Kind kind, uint32_t from, uint32_t to, auto&& own) {
    guarded([&] {
      bytes_.clear();
      ByteWriter writer(bytes_);
      writer.number(from);
      writer.number(to);
      group_.send(kind, bytes_);
      own();
    });
  }

  std::unique_ptr<model::Backend> own_;
  Group& group_;
  BatchEncoder encoder_;
  uint32_t taken_ = 0;  // results since the last batch
  Bytes bytes_;
};

class Follower {
 public:
  Follower(const model::Model& shard, model::Backend& own, const model::Limits& limits, Group& group)
      : shard_(shard),
        own_(own),
        limits_(limits),
        group_(group),
        decoder_(
            {.rows = limits.rows, .blocks = limits.kv_blocks, .text = uint64_t(shard.context) + shard.vocabulary}) {}

  void run() {
    for (;;) {
      const Message message = group_.next();
      if (message.kind == Kind::end) return;
      carry_out(message);
    }
  }

 private:
  void carry_out(const Message& message) {
    switch (message.kind) {
      case Kind::batch:
        return compute(message);
      case Kind::allow:
        return allow(message);
      case Kind::copy_block:
        return copy(message, limits_.kv_blocks, [this](uint32_t from, uint32_t to) { own_.copy_block(from, to); });
      case Kind::copy_window_block:
        return copy(message, limits_.window_blocks,
                    [this](uint32_t from, uint32_t to) { own_.copy_window_block(from, to); });
      case Kind::copy_state:
        return copy(message, limits_.state_slots, [this](uint32_t from, uint32_t to) { own_.copy_state(from, to); });
      default:
        throw Error("expected a batch, found a message of kind {}", int(message.kind));
    }
  }
  void compute(const Message& message) {
    uint32_t taken = 0;
    const model::Batch& batch = decoder_.decode(message.payload, taken);
    for (uint32_t i = 0; i < taken; ++i) own_.result();
    model::forward(shard_, own_, batch);
  }
  void allow(const Message& message) {
    const auto masks = decode_masks(message.payload, limits_.rows, (shard_.vocabulary + 31) / 32);
    const std::vector<std::span<const uint32_t>> views(masks.begin(), masks.end());
    own_.allow(views);
  }
  void copy(const Message& message, uint32_t count, auto&& own) {
    ByteReader reader(message.payload);
    const uint32_t from = reader.number32(), to = reader.number32();
    reader.expect_end();
    if (from >= count || to >= count) throw Error("expected one of {}, found a copy from {} to {}", count, from, to);
    own(from, to);
  }

  const model::Model& shard_;
  model::Backend& own_;
  const model::Limits& limits_;
  Group& group_;
  BatchDecoder decoder_;
};

}  // namespace

std::unique_ptr<model::Backend> make_leader(std::unique_ptr<model::Backend> own, Group& group) {
  return std::make_unique<Leader>(std::move(own), group);
}

void follow(const model::Model& shard, model::Backend& own, const model::Limits& limits, Group& group) {
  try {
    Follower(shard, own, limits, group).run();
  } catch (const std::exception& error) {
    group.fail(error.what());
    throw Error("{}", group.alarm().why());
  }
}

}  // namespace heddle::ranks
