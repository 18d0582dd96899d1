// Every way to cut a stream into pieces must give the same text.
#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include "tests/support/refused.h"

namespace heddle::text {
namespace {

struct Outcome {
  std::string text;
  bool found;
  bool operator==(const Outcome&) const = default;
};

Outcome stream_of(const std::vector<std::string>& stops, std::string_view text, size_t piece) {
  StopStrings watch(stops);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) out += watch.push(text.substr(at, piece));
  out += watch.finish();
  return {out, watch.found()};
}

void expect(const std::vector<std::string>& stops, std::string_view text, const Outcome& expected) {
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    const Outcome found = stream_of(stops, text, piece);
    EXPECT_EQ(found.text, expected.text) << text << " in pieces of " << piece;
    EXPECT_EQ(found.found, expected.found) << text << " in pieces of " << piece;
  }
}

TEST(StopStrings, TheTextBeforeTheFirstOne) {
  expect({}, "all of it", {"all of it", false});
  expect({"\n"}, "one line\nand more", {"one line", true});
  expect({"User:"}, "well. User: what", {"well. ", true});
  expect({"User:"}, "well. User", {"well. User", false});  // begun but never complete: it is text
  expect({"aab"}, "aaaab", {"aa", true});
  expect({"stop"}, "stop", {"", true});
}

TEST(StopStrings, TheOneThatIsCompleteFirstCounts) {
  expect({"abc", "b"}, "xabc", {"xa", true});
  expect({"ab", "b"}, "xab", {"x", true});  // complete together: the longer one
  expect({"b", "ab"}, "xab", {"x", true});
  expect({"end", "END"}, "the END, the end", {"the ", true});
}

TEST(StopStrings, NothingIsHeldLongerThanNeeded) {
  StopStrings watch({"<end>"});
  EXPECT_EQ(watch.push("a <e"), "a ");
  EXPECT_EQ(watch.push("at"), "<eat");
  EXPECT_EQ(watch.push("<end> gone"), "");
  EXPECT_TRUE(watch.found());
  EXPECT_EQ(watch.push("more"), "");
  EXPECT_EQ(watch.finish(), "");
}

TEST(StopStrings, AnEmptyOneIsRefused) { EXPECT_REFUSED(StopStrings({"x", ""}), "stop", "empty"); }

}  // namespace
}  // namespace heddle::text
