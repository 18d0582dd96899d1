#include "ranks/leader.h"

#include <algorithm>
#include <type_traits>

#include "model/forward.h"
#include "ranks/batch_code.h"

namespace heddle::ranks {
namespace {

using Kind = Message::Kind;

class Leader : public model::Backend {
 public:
  Leader(std::unique_ptr<model::Backend> own, Group& group, PartNumbers* numbers)
      : own_(std::move(own)), group_(group), numbers_(numbers) {
    if (!numbers_) return;
    own_sizes_ = part_sizes(*own_);
    sizes_ = largest_part_sizes(own_sizes_, group_);
  }

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
  bool computes_rows_in_groups() const override { return own_->computes_rows_in_groups(); }
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

  // A buffer is as long as the longest of all ranks; this rank's part is at its beginning.
  std::string kv_layout() const override {
    if (!numbers_ || own_->kv_layout().empty()) return {};
    return fmt::format("{} on {} ranks in {} stages", own_->kv_layout(), group_.ranks(), group_.options().stages);
  }
  uint64_t kv_part_bytes(model::KvPart part) const override { return sizes_[size_t(part)]; }
  void read_kv(std::span<const model::KvRead> reads) override {
    guarded([&] {
      std::vector<PartOrder> orders;
      std::vector<model::KvRead> own;
      for (const auto& [from, to] : reads) {
        check(to.size() == kv_part_bytes(from.part), "as many bytes as the place has");
        orders.push_back({from, numbers_->number(to.data())});
        const uint64_t bytes = own_sizes_[size_t(from.part)];
        if (bytes) own.push_back({from, to.first(bytes)});
        std::ranges::fill(to.subspan(bytes), uint8_t(0));
      }
      send_orders(Kind::read_kv, orders);
      if (!own.empty()) own_->read_kv(own);
    });
  }
  void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override {
    guarded([&] {
      const std::optional<uint64_t> number = numbers_->find(bytes.data());
      check(number && bytes.size() == kv_part_bytes(place.part), "a buffer that was read or loaded on every rank");
      const PartOrder order{place, *number};
      send_orders(Kind::write_kv, {&order, 1});
      if (const uint64_t own = own_sizes_[size_t(place.part)]) own_->write_kv(place, bytes.first(own));
    });
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

  void send_orders(Kind kind, std::span<const PartOrder> orders) {
    numbers_->send_dropped(group_);
    bytes_.clear();
    encode_orders(orders, bytes_);
    group_.send(kind, bytes_);
  }

  std::unique_ptr<model::Backend> own_;
  Group& group_;
  PartNumbers* numbers_;  // null: what its cache has is not kept elsewhere
  PartSizes own_sizes_{}, sizes_{};
  BatchEncoder encoder_;
  uint32_t taken_ = 0;  // results since the last batch
  Bytes bytes_;
};

class Follower {
 public:
  Follower(const model::Model& shard, model::Backend& own, const model::Limits& limits, Group& group,
           PartBuffers* buffers)
      : shard_(shard),
        own_(own),
        limits_(limits),
        group_(group),
        buffers_(buffers),
        decoder_(
            {.rows = limits.rows, .blocks = limits.kv_blocks, .text = uint64_t(shard.context) + shard.vocabulary}) {
    if (!buffers_) return;
    sizes_ = part_sizes(own_);
    largest_part_sizes(sizes_, group_);
  }

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
      case Kind::read_kv:
        return read_kv(message);
      case Kind::write_kv:
        return write_kv(message);
      case Kind::drop_kv:
        for (const uint64_t number : decode_numbers(message.payload)) buffers().drop(number);
        return;
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
  PartBuffers& buffers() {
    check(buffers_, "buffers for what rank 0 keeps of the cache");
    return *buffers_;
  }
  void read_kv(const Message& message) {
    const std::vector<PartOrder> orders = decode_orders(message.payload, limits_);
    std::vector<PartBuffers::Buffer> read;
    std::vector<model::KvRead> reads;
    for (const PartOrder& order : orders) {
      read.push_back(std::make_shared<Bytes>(sizes_[size_t(order.place.part)]));
      if (!read.back()->empty()) reads.push_back({order.place, *read.back()});
    }
    if (!reads.empty()) own_.read_kv(reads);
    for (size_t i = 0; i < orders.size(); ++i) buffers().put(orders[i].number, read[i]);
  }
  void write_kv(const Message& message) {
    for (const auto& [place, number] : decode_orders(message.payload, limits_)) {
      const PartBuffers::Buffer buffer = buffers().find(number);
      if (!buffer || buffer->size() != sizes_[size_t(place.part)])
        throw Error("part {} of the KV cache: expected {} bytes in memory, found {}", number,
                    sizes_[size_t(place.part)], buffer ? buffer->size() : 0);
      if (!buffer->empty()) own_.write_kv(place, *buffer);
    }
  }

  const model::Model& shard_;
  model::Backend& own_;
  const model::Limits& limits_;
  Group& group_;
  PartBuffers* buffers_;  // null: rank 0 keeps nothing of the cache
  PartSizes sizes_{};
  BatchDecoder decoder_;
};

}  // namespace

std::unique_ptr<model::Backend> make_leader(std::unique_ptr<model::Backend> own, Group& group, PartNumbers* numbers) {
  return std::make_unique<Leader>(std::move(own), group, numbers);
}

void follow(const model::Model& shard, model::Backend& own, const model::Limits& limits, Group& group,
            PartBuffers* buffers) {
  try {
    Follower(shard, own, limits, group, buffers).run();
  } catch (const std::exception& error) {
    group.fail(error.what());
    throw Error("{}", group.alarm().why());
  }
}

}  // namespace heddle::ranks
