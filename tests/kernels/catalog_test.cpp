// The catalog: every kernel builds, verifies and prints for its targets; wrong settings are refused with a reason.
#include "kernels/catalog.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ptx/print.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

std::string message(const Entry& e, const std::map<std::string, std::string>& set) {
  try {
    e.build(set);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
const Entry& find(const std::string& name) {
  for (auto& e : catalog())
    if (e.name == name) return e;
  throw Error("no kernel {}", name);
}

TEST(Catalog, NamesAreUniqueAndSaid) {
  std::set<std::string> names;
  for (auto& e : catalog()) {
    EXPECT_TRUE(names.insert(e.name).second) << e.name;
    EXPECT_FALSE(e.summary.empty()) << e.name;
  }
  EXPECT_TRUE(names.count("rms_norm") && names.count("q4k_gemv") && names.count("embedding"));
}

TEST(Catalog, EveryKernelPrintsForEveryTargetFromItsLowest) {
  for (auto& e : catalog()) {
    const ptx::Kernel kernel = e.build({});
    const ptx::Target& lowest = ptx::target(e.lowest_target);
    for (auto& t : ptx::targets()) {
      if (t.sm < lowest.sm) continue;
      EXPECT_NO_THROW(ptx::verify(kernel, t)) << e.name << " " << t.name;
      EXPECT_NE(ptx::print(kernel, t).find(".entry " + kernel.name), std::string::npos) << e.name << " " << t.name;
    }
  }
}

TEST(Catalog, PresetsSayTheirGenerator) {
  for (const char* preset : {"tiled_q4k_gemv", "chunked_tiled_q4k_gemv", "coalesced_q4k_gemv", "wide_q4k_gemv",
                             "vectorized_q4k_gemv", "mwv_q4k_gemv", "mwv_dp4a_q4k_gemv", "q6k_gemv", "mxfp4_gemv"})
    EXPECT_EQ(find(preset).spec, "gemv");
  EXPECT_EQ(find("q6k_gemv").fields[0], (std::pair<std::string, std::string>{"format", "q6_k"}));
}

TEST(Catalog, FieldsCanBeSetToTheirDefaultsAndTakeEffect) {
  for (auto& e : catalog()) {
    EXPECT_FALSE(e.fields.empty()) << e.name;
    for (auto& [name, value] : e.fields) EXPECT_NO_THROW(e.build({{name, value}})) << e.name << " " << name;
  }
  EXPECT_EQ(find("rms_norm").build({{"threads", "64"}}).threads(), 64u);
  EXPECT_EQ(find("q4k_gemv").build({{"warps", "8"}}).threads(), 256u);
}

TEST(Catalog, RefusesWithTheFieldAndWhatIsAllowed) {
  EXPECT_EQ(message(find("embedding"), {{"thread", "64"}}),
            "embedding: there is no field \"thread\"; it has format, threads, chained");
  EXPECT_EQ(message(find("rms_norm"), {{"threads", "100"}}),
            "rms_norm: threads = \"100\" is not possible; it may be 32, 64, ... 1024");
  EXPECT_EQ(message(find("rms_norm"), {{"vec", "3"}}), "rms_norm: vec = \"3\" is not possible; it may be 1, 2, 4");
  EXPECT_EQ(message(find("q4k_gemv"), {{"warps", "0"}}), "q4k_gemv: warps = \"0\" is not possible; it may be 1 to 32");
  for (const char* bad : {"", "4x", "-4", "four", " 4", "4294967300"})
    EXPECT_NE(message(find("q4k_gemv"), {{"warps", bad}}), "") << bad;
}

}  // namespace
}  // namespace heddle::kernels
