// heddle perplexity: known values, the value of llama.cpp, and what each file type costs: the perplexity of weft,
// quantised from Q8_0, on a text it has not seen, and the KL divergence.
#include "main/commands/perplexity_command.h"

#include <gtest/gtest.h>

#include <map>

#include "base/files.h"
#include "formats/mix.h"
#include "tests/main/small_model.h"
#include "tests/support/shared_data.h"

namespace heddle::test {
namespace {

TEST(PerplexityCommand, OfAModelThatKnowsNothingIsTheVocabulary) {
  const Folder folder;
  const std::string model = write_small_model(folder, "zero.gguf", true);
  const std::string text = folder.write("t.txt", std::string(300, 'h'));
  for (const char* method : {"windows", "sliding"}) {
    const Result result = heddle({"perplexity", model, text, "--window", "64", "--method", method, "--kl", model});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("perplexity 265.0000 +- 0.0000"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("mean 0.000000, largest 0.0000; top-1 agreement 100.00 %"), std::string::npos)
        << result.out;
  }
  EXPECT_NE(heddle({"perplexity", model, text, "--window", "4096"}).err.find("at least 4096 tokens"),
            std::string::npos);
  EXPECT_NE(heddle({"perplexity", model, text, "--method", "x"}).err.find("windows or sliding"), std::string::npos);
}

TEST(PerplexityCommand, IsThatOfLlamaCpp) {
  SHARED_DATA(model, "weights/stories260K-f32.gguf");
  SHARED_DATA(book, "text/moby-dick.txt");
  const Folder folder;
  const std::string text = folder.write("t.txt", std::string(MappedFile(book).text().substr(0, 100'000)));
  const Result result = heddle({"perplexity", model.string(), text, "--window", "128", "--windows", "64"});
  EXPECT_EQ(result.status, 0) << result.err;
  double value = 0;
  ASSERT_EQ(std::sscanf(result.out.c_str(), "perplexity %lf", &value), 1) << result.out;
  EXPECT_NEAR(value, 65.67, 0.05);
}

const std::string weft_folder = std::string(HEDDLE_SOURCE_DIR) + "/models/weft/";

// Measured on 254 tokens: the KL divergence from Q8_0 plus a third, and the perplexity plus 3 %.
const struct {
  const char* type;
  double divergence, perplexity;
} limits[] = {
    {"F32", 0.0004, 3.39},   {"F16", 0.0004, 3.39},    {"BF16", 0.0004, 3.39},  {"Q8_0", 0, 3.40},
    {"Q6_K", 0.0040, 3.38},  {"Q5_K_M", 0.0085, 3.40}, {"Q5_K_S", 0.011, 3.41}, {"Q5_1", 0.0081, 3.42},
    {"Q5_0", 0.011, 3.44},   {"Q4_K_M", 0.022, 3.34},  {"Q4_K_S", 0.024, 3.32}, {"Q4_1", 0.028, 3.37},
    {"Q4_0", 0.038, 3.41},   {"IQ4_NL", 0.033, 3.31},  {"IQ4_XS", 0.035, 3.33}, {"MXFP4", 0.071, 3.36},
    {"Q3_K_L", 0.059, 3.50}, {"Q3_K_M", 0.075, 3.45},  {"Q3_K_S", 0.128, 3.66}, {"Q2_K", 0.312, 4.09},
    {"Q2_K_S", 0.692, 5.10},
};

TEST(PerplexityCommand, FewerBitsCostMoreButWithinTheirLimitsSlow) {
  const MappedFile text(weft_folder + "held_out.txt");
  const Folder folder;
  std::map<std::string, Perplexity> found;
  for (const auto& [type, divergence, perplexity] : limits) {
    const std::string file = folder.file("m.gguf");
    const Result quantized =
        heddle({"quantize", weft_folder + "weft-q8_0.gguf", file, "--type", type, "--allow-requantize", "--force"});
    ASSERT_EQ(quantized.status, 0) << quantized.err;
    PerplexityOptions options{.model = file, .file = "held_out.txt", .other = weft_folder + "weft-q8_0.gguf"};
    options.window = 256;
    options.limit = 2;
    found[type] = measure_perplexity(options, text.text().substr(0, 5'000), {});
    EXPECT_LE(found[type].divergence, divergence) << type;
    EXPECT_LE(found[type].value, perplexity) << type;
  }
  EXPECT_EQ(found.size(), formats::all_file_types().size());
  const char* finer = "Q8_0";
  for (const char* type : {"Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K"}) {
    EXPECT_LT(found[finer].divergence, found[type].divergence) << finer << " and " << type;
    finer = type;
  }
}

}  // namespace
}  // namespace heddle::test
