// What is answered to a command line that is not understood.
#include "main/commands/suggestions.h"

#include <gtest/gtest.h>

#include "tests/main/heddle_command.h"

namespace heddle::test {
namespace {

TEST(Suggestions, TheNearestName) {
  const std::vector<std::string> known{"run", "plan", "perplexity", "--ctx", "--temp", "--threads", "-n", "rms_norm"};
  EXPECT_EQ(nearest("pln", known), "plan");
  EXPECT_EQ(nearest("rnu", known), "run");  // neighbours swapped
  EXPECT_EQ(nearest("PLAN", known), "plan");
  EXPECT_EQ(nearest("perplex", known), "perplexity");
  EXPECT_EQ(nearest("perplexityy", known), "perplexity");
  EXPECT_EQ(nearest("--ctxt", known), "--ctx");
  EXPECT_EQ(nearest("--temperature", known), "--temp");
  EXPECT_EQ(nearest("--thread", known), "--threads");
  EXPECT_EQ(nearest("rms_nrom", known), "rms_norm");
  EXPECT_EQ(nearest("fly", known), "");
  EXPECT_EQ(nearest("--fly", known), "");
  EXPECT_EQ(nearest("-q", known), "");
  EXPECT_EQ(nearest("", known), "");
}

// The first line on standard error, and what it is about.
std::string answer(const std::vector<std::string>& arguments) {
  const Result result = heddle(arguments);
  EXPECT_EQ(result.status, 2) << arguments[0];
  EXPECT_EQ(result.out, "");
  return result.err.substr(0, result.err.find('\n'));
}

TEST(Suggestions, CommandsAndOptions) {
  EXPECT_EQ(answer({"pln"}), "heddle: there is no command \"pln\"; did you mean plan?");
  EXPECT_EQ(answer({"fly", "away"}), "heddle: there is no command \"fly\"");
  EXPECT_EQ(answer({"help", "pln"}), "heddle: there is no command \"pln\"; did you mean plan?");
  EXPECT_EQ(answer({"model.gguf"}), "heddle: there is no command \"model.gguf\"; did you mean heddle chat model.gguf?");
  EXPECT_EQ(answer({"ptx", "shwo"}), "heddle: there is no command \"shwo\"; did you mean show?");
  EXPECT_EQ(answer({"run", "--tmep", "1"}), "heddle: there is no option --tmep; did you mean --temp?");
  EXPECT_EQ(answer({"run", "--tmep=1"}), "heddle: there is no option --tmep; did you mean --temp?");
  EXPECT_EQ(answer({"run", "weft", "one", "two", "three"}),
            "heddle: expected no further argument, found \"one\" \"two\" \"three\"");
  EXPECT_EQ(answer({"run", "--temp", "hot"}), "heddle: --temp: expected a number, found \"hot\"");
  EXPECT_EQ(answer({"run", "-n", "many"}), "heddle: --tokens: expected a number, found \"many\"");
  EXPECT_EQ(answer({"perplexity", "weft"}), "heddle: FILE is required");
  EXPECT_EQ(heddle({"run", "--tmep", "1"}).err,
            "heddle: there is no option --tmep; did you mean --temp?\nheddle run --help shows what can be given\n");
  EXPECT_EQ(heddle({"ptx", "show"}).err, "heddle: NAME is required\nheddle ptx show --help shows what can be given\n");
}

TEST(Suggestions, OptionsOfOtherPrograms) {
  EXPECT_EQ(answer({"run", "-m", "x.gguf"}),
            "heddle: there is no option -m: MODEL is given without an option: heddle run MODEL");
  EXPECT_EQ(answer({"-m", "x.gguf", "-p", "hi"}),
            "heddle: there is no option -m: MODEL is given without an option: heddle run MODEL");
  EXPECT_EQ(answer({"run", "-c", "4096"}), "heddle: there is no option -c: did you mean --ctx?");
  EXPECT_EQ(answer({"serve", "--ctx-size=4096"}), "heddle: there is no option --ctx-size: did you mean --ctx?");
  EXPECT_EQ(answer({"run", "-f", "x.txt"}),
            "heddle: there is no option -f: a text is read from standard input: heddle run MODEL < FILE");
  // -n is an option here, of which "gl" would be the value
  for (const char* command : {"run", "chat", "serve"})
    EXPECT_EQ(answer({command, "x.gguf", "-ngl", "99"}),
              "heddle: there is no option -ngl: --device cuda:N runs the whole model on that GPU, --device cpu none "
              "of it");
  EXPECT_EQ(answer({"tokenize", "weft", "-c", "1"}), "heddle: there is no option -c");  // which has no --ctx
}

TEST(Suggestions, NamesOfKernels) {
  EXPECT_EQ(heddle({"ptx", "show", "rms_nrom"}).err, "heddle: no kernel is called rms_nrom; did you mean rms_norm?\n");
  EXPECT_EQ(heddle({"selftest", "rms_nrom"}).err, "heddle: no kernel is called rms_nrom; did you mean rms_norm?\n");
}

}  // namespace
}  // namespace heddle::test
