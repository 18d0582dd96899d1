// Parts fetched over TCP on this machine: by one that knows the offer, of the same model, once; and two engines, of
// which one computes a prompt and the other goes on with it.
#include "tiers/transfer_server.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/engine/engine_fixture.h"
#include "tests/support/refused.h"
#include "tests/tiers/some_parts.h"
#include "tiers/tiered_store.h"

namespace heddle::tiers {
namespace {

using engine::KvAddress;
using engine::KvBytes;
using engine::KvKey;
using engine::KvOffer;
using engine::TextHash;
using test::refusal;

const TextHash root = TextHash::of("model"), other_root = TextHash::of("another");

KvOffer some_offer(uint64_t count, size_t size) {
  KvOffer offer{.root = root};
  for (uint64_t i = 0; i < count; ++i) {
    const KvKey key = some_key(i, model::KvPart(i % 3));
    KvBytes bytes{std::shared_ptr<uint8_t[]>(new uint8_t[size]), size};
    std::ranges::copy(bytes_of(key, size), bytes.data.get());
    offer.parts.emplace_back(key, bytes);
  }
  return offer;
}

struct Received {
  std::map<KvKey, std::vector<uint8_t>> parts;
  std::vector<KvKey> arrived;

  void fetch(engine::KvSource& source, const TextHash& of, const std::vector<KvKey>& keys) {
    source.fetch(
        of, keys,
        [&](const KvKey& key, uint64_t size) -> std::span<uint8_t> {
          parts[key].resize(size);
          return parts[key];
        },
        [&](const KvKey& key) { arrived.push_back(key); });
  }
};

TEST(Transfer, PartsArriveAsTheyWereOffered) {
  TransferServer server("127.0.0.1", 0);
  const KvAddress address = server.offer(some_offer(30, 70'001));
  EXPECT_EQ(server.offers(), 1u);
  EXPECT_EQ(server.address(), "127.0.0.1:" + std::to_string(address.port));
  std::vector<KvKey> keys;
  for (uint64_t i = 5; i < 40; ++i) keys.push_back(some_key(i, model::KvPart(i % 3)));
  Received received;
  received.fetch(*server.source(address), root, keys);
  ASSERT_EQ(received.arrived.size(), 25u);
  for (const KvKey& key : received.arrived) EXPECT_EQ(received.parts[key], bytes_of(key, 70'001));
  for (int i = 0; i < 1000 && server.offers(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(server.offers(), 0u);
  EXPECT_NE(refusal([&] { received.fetch(*server.source(address), root, keys); }).find("expected an offer"),
            std::string::npos);
}

TEST(Transfer, AnotherModelIsRefused) {
  TransferServer server("127.0.0.1", 0);
  const KvAddress address = server.offer(some_offer(1, 100));
  Received received;
  const std::string why = refusal([&] { received.fetch(*server.source(address), other_root, {some_key(0)}); });
  EXPECT_NE(why.find("it refuses: expected the same model, KV format and device on both sides"), std::string::npos)
      << why;
  EXPECT_TRUE(received.arrived.empty());
  EXPECT_EQ(server.offers(), 1u);
}

TEST(Transfer, AnOfferEndsWithItsLease) {
  TransferServer server("127.0.0.1", 0, 0.05);
  server.offer(some_offer(1, 100));
  for (int i = 0; i < 3000 && server.offers(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(server.offers(), 0u);
}

TEST(Transfer, WhoSendsAnythingElseIsTold) {
  TransferServer server("127.0.0.1", 0);
  const KvAddress address = server.offer(some_offer(1, 100));
  std::vector<uint8_t> frame = encode_request({address.request, root, {some_key(0)}});
  for (const size_t at : {size_t(5), size_t(20), frame.size() - 1}) {
    std::vector<uint8_t> damaged = frame;
    damaged[at] ^= 1;
    Socket socket = Socket::connect("127.0.0.1", address.port);
    socket.send(damaged);
    uint8_t length[frame_length_bytes];
    socket.receive(length);
    std::vector<uint8_t> answer(frame_bytes(length));
    socket.receive(answer);
    EXPECT_EQ(decode_answer(answer), "damaged: its checksum is another");
  }
  Socket::connect("127.0.0.1", address.port);  // and goes away
  Received received;
  received.fetch(*server.source(address), root, {some_key(0)});
  EXPECT_EQ(received.arrived.size(), 1u);
  EXPECT_NE(refusal([&] { TransferServer("127.0.0.1", address.port); }).find("cannot listen there"), std::string::npos);
}

TEST(Transfer, NoServerIsAnError) {
  KvAddress address;
  {
    TransferServer server("127.0.0.1", 0);
    address = server.offer(some_offer(1, 100));
  }
  TransferServer other("127.0.0.1", 0);
  Received received;
  EXPECT_NE(refusal([&] { received.fetch(*other.source(address), root, {some_key(0)}); }).find("cannot be reached"),
            std::string::npos);
}

// Of every kind of cache: plain, with states, with windows.
template <class Backend>
void expect_handed_over(uint32_t slots, uint32_t window) {
  using namespace test::fake;
  model::Limits limits = fake_limits(60, 4, 32);
  limits.state_slots = slots;
  limits.window_blocks = window ? 20 : 0;
  const model::Model model = with_window(fake_model(256), window);
  TieredStore one(1 << 20), two(1 << 20);
  TransferServer server("127.0.0.1", 0);
  std::shared_ptr<const KvOffer> offer;
  engine::Request request{.prompt = {}, .max_tokens = 1, .offers = true};
  for (uint32_t i = 0; i < 90; ++i) request.prompt.push_back(i * i % 13);
  request.sampling.temperature = 0;
  EngineFixture<Backend> prefill(limits, {.store = &one, .store_identity = "x"}, model);
  prefill.submit(request, [&](const engine::Event& event) {
    if (event.offer) offer = event.offer;
  });
  prefill.run();
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->blocks(), slots ? 20u : 22u);  // up to the last snapshot
  request.offers = false;
  request.max_tokens = 20;
  request.source = server.source(server.offer(*offer));
  EngineFixture<Backend> decode(limits, {.store = &two, .store_identity = "x"}, model);
  const auto id = decode.submit(request);
  while (!decode.engine->idle())
    if (!decode.step()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect_same(decode.answers.at(id)[0], answer_alone(model, request));
  EXPECT_GE(decode.answers.at(id)[0].cached_tokens, slots ? 80u : 88u);
  EXPECT_GE(decode.engine->metrics().store.received, slots ? 21u : 22u);

  EngineFixture<Backend> of_another_model(limits, {.store = &two, .store_identity = "y"}, model);
  request.source = server.source(server.offer(*offer));
  const auto refused = of_another_model.submit(request);
  while (!of_another_model.engine->idle())
    if (!of_another_model.step()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect_same(of_another_model.answers.at(refused)[0], answer_alone(model, request));  // it computes
  EXPECT_EQ(of_another_model.answers.at(refused)[0].cached_tokens, 0u);
  EXPECT_EQ(two.metrics().failures, 1u);
}
TEST(Transfer, AnEngineGoesOnWithThePromptOfAnother) {
  for (const auto& [slots, window] : {std::pair(0u, 0u), {3u, 0u}, {0u, 10u}, {3u, 10u}}) {
    expect_handed_over<test::fake::FakeBackend>(slots, window);
    expect_handed_over<test::fake::FakeDevice>(slots, window);
  }
}

TEST(Transfer, AnEngineWithoutAStoreRefuses) {
  test::fake::EngineFixture<> fixture(test::fake::fake_limits(20));
  EXPECT_EQ(refusal([&] {
              fixture.submit({.prompt = {1, 2}, .offers = true});
            }),
            "kv_transfer_params: this engine keeps its KV cache to itself");
}

}  // namespace
}  // namespace heddle::tiers
