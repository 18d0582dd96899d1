#include "formats/unsupported.h"

#include <gtest/gtest.h>

#include "formats/hf/classes.h"

namespace heddle::formats {
namespace {

TEST(Unsupported, IsFoundByArchitectureAndByClass) {
  EXPECT_EQ(missing_for("jamba"), "recurrent states (Mamba)");
  EXPECT_EQ(missing_for("JambaForCausalLM"), "recurrent states (Mamba)");
  EXPECT_EQ(missing_for("KimiLinearForCausalLM"), "recurrent states (delta attention)");
  EXPECT_EQ(missing_for("T5EncoderModel"), "relative positions (T5)");
  EXPECT_EQ(missing_for("FalconMambaForCausalLM"), "recurrent states (Mamba)");
  EXPECT_EQ(missing_for("SomethingElse"), "");
  EXPECT_EQ(missing_for(""), "");
}

TEST(Unsupported, NoClassThatIsKnownIsAmongThem) {
  for (std::string_view name : hf::known_classes()) EXPECT_EQ(missing_for(name), "") << name;
}

}  // namespace
}  // namespace heddle::formats
