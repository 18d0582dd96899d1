// Batches byte by byte, as Python's msgpack packs them.
#include "server/events/event_wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace heddle::test {
namespace {

using namespace server;

std::string hex(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

const EventBatch every_event{
    1789095808.25,
    {BlocksStored{{0x8000000000000001, 0xfedcba9876543210}, 0x9000000000000000, {1, 128, 70000, 0}},
     BlocksRemoved{{0xfedcba9876543210}}, AllBlocksCleared{}}};

TEST(EventWire, WritesMaps) {
  EXPECT_EQ(hex(pack(every_event, EventFormat::map)),
            "93cb41daa8dbe01000009388a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392cf8000000000000001"
            "cffedcba9876543210b1706172656e745f626c6f636b5f68617368cf9000000000000000a9746f6b656e5f6964739401cc80ce00"
            "01117000aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c083a4747970"
            "65ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cffedcba9876543210a66d656469756da347505581a47479"
            "7065b0416c6c426c6f636b73436c656172656400");
}

TEST(EventWire, WritesArrays) {
  EXPECT_EQ(hex(pack(every_event, EventFormat::array)),
            "93cb41daa8dbe01000009398ab426c6f636b53746f72656492cf8000000000000001cffedcba9876543210cf9000000000000000"
            "9401cc80ce000111700002c0a3475055c093ac426c6f636b52656d6f76656491cffedcba9876543210a347505591b0416c6c426c"
            "6f636b73436c656172656400");
}

TEST(EventWire, SaysThatNothingComesBeforeAText) {
  const std::string bytes = hex(pack({0.1, {BlocksStored{{1}, {}, {7}}}}, EventFormat::array));
  EXPECT_NE(bytes.find("9101c09107"), bytes.npos) << bytes;  // [1], nil, [7]
}

}  // namespace
}  // namespace heddle::test
