// The completions, asked of the shells themselves.
#include <gtest/gtest.h>

#include "tests/main/heddle_command.h"
#include "tests/store/store_folder.h"
#include "tests/support/folder.h"
#include "tests/support/program.h"

namespace heddle {
namespace {

using test::heddle;
using test::Ran;
using test::Result;
using test::shell;
using test::shell_quoted;

bool is_installed(const char* name) { return shell("command -v " + std::string(name)).status == 0; }

// A folder with a file, and a `heddle` on the path that finds models in a store of its own.
struct CompletionFolder : test::Folder {
  CompletionFolder() {
    write("story.txt", "");
    std::filesystem::create_directory(file("bin"));
    std::filesystem::create_symlink(test::program_path(), file("bin/heddle"));
    for (const char* name : {"hub/org/repo/m-Q4_K_M.gguf", "hub/org/repo/m-Q8_0.gguf", "story$(touch broken).gguf",
                             "registry/registry.ollama.ai/library/qwen3/0.6b/model.gguf"})
      test::put(file("heddle/models") / name, "GGUF");
  }
  std::string enter() const {  // for a shell
    return "cd " + shell_quoted(path().string()) +
           " && export HOME=$PWD XDG_DATA_HOME=$PWD PATH=$PWD/bin:$PATH HF_HUB_CACHE= HF_HOME= OLLAMA_MODELS=$PWD/none "
           "LLAMA_CACHE= XDG_CACHE_HOME= && ";
  }
};

// What the shell offers for the last word of a line, in the order of the alphabet, separated by spaces.
std::string in_bash(const CompletionFolder& folder, const std::string& words) {
  const std::string script = folder.write("heddle.bash", heddle({"completion", "bash"}).out);
  const Ran ran = shell(folder.enter() + "bash --norc -c " +
                        shell_quoted(". " + script + "; COMP_WORDS=(" + words +
                                     "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _heddle 2>/dev/null; "
                                     "printf '%s\\n' \"${COMPREPLY[@]}\" | sort | paste -sd ' '"));
  return ran.out.substr(0, ran.out.find('\n'));
}

std::string in_fish(const CompletionFolder& folder, const std::string& line) {
  const std::string script = folder.write("heddle.fish", heddle({"completion", "fish"}).out);
  const Ran ran = shell(folder.enter() + "fish --no-config -c " +
                        shell_quoted("source " + script + "; complete -C " + shell_quoted(line)) +
                        " | cut -f 1 | sort | paste -sd ' '");
  return ran.out.substr(0, ran.out.find('\n'));
}

TEST(Completion, BashSlow) {
  if (!is_installed("bash")) GTEST_SKIP() << "there is no bash";
  const CompletionFolder folder;
  EXPECT_EQ(in_bash(folder, "heddle qu"), "quantize");
  EXPECT_EQ(in_bash(folder, "heddle he"), "health help");
  EXPECT_EQ(in_bash(folder, "heddle bench cl"), "client");
  EXPECT_EQ(in_bash(folder, "heddle help ptx ''"), "check list show");
  EXPECT_EQ(in_bash(folder, "heddle ptx -"), "--help -h");
  EXPECT_EQ(in_bash(folder, "heddle serve --tls"), "--tls-cert --tls-key");
  EXPECT_EQ(in_bash(folder, "heddle quantize --type Q4_"), "Q4_0 Q4_1 Q4_K_M Q4_K_S");
  EXPECT_EQ(in_bash(folder, "heddle quantize --type = IQ4_N"), "IQ4_NL");  // as bash cuts --type=IQ4_N
  EXPECT_EQ(in_bash(folder, "heddle convert --type au"), "auto");
  EXPECT_EQ(in_bash(folder, "heddle run --grammar st"), "story.txt");
  EXPECT_EQ(in_bash(folder, "heddle run we"), "weft");
  EXPECT_EQ(in_bash(folder, "heddle run --prompt st"), "");  // a text is not a file
  EXPECT_EQ(in_bash(folder, "heddle completion ''"), "bash fish zsh");
  EXPECT_EQ(in_bash(folder, "heddle run qw"), "qwen3:0.6b");
  EXPECT_EQ(in_bash(folder, "heddle run qwen3 :"), "0.6b");  // as bash cuts qwen3:
  EXPECT_EQ(in_bash(folder, "heddle run org/repo : Q8"), "Q8_0");
  EXPECT_EQ(in_bash(folder, "heddle show org"), "org/repo:Q4_K_M org/repo:Q8_0");
  EXPECT_EQ(in_bash(folder, "heddle rm q"), "qwen3:0.6b");
  EXPECT_EQ(in_bash(folder, "heddle perplexity weft story.txt --kl org/repo : Q4"), "Q4_K_M");
  EXPECT_EQ(in_bash(folder, "heddle perplexity weft story.txt --kl = org/repo : Q4"), "Q4_K_M");
  EXPECT_EQ(in_bash(folder, "heddle run story"), "story$(touch broken) story.txt");
  EXPECT_EQ(in_bash(folder, "heddle run --device q"), "");
  EXPECT_FALSE(std::filesystem::exists(folder.file("broken"))) << "names are no commands";
}

TEST(Completion, FishSlow) {
  if (!is_installed("fish")) GTEST_SKIP() << "there is no fish";
  const CompletionFolder folder;
  EXPECT_EQ(in_fish(folder, "heddle qu"), "quantize");
  EXPECT_EQ(in_fish(folder, "heddle bench cl"), "client");
  EXPECT_EQ(in_fish(folder, "heddle help ptx "), "check list show");
  EXPECT_EQ(in_fish(folder, "heddle serve --tls"), "--tls-cert --tls-key");
  EXPECT_EQ(in_fish(folder, "heddle quantize --type Q4_"), "Q4_0 Q4_1 Q4_K_M Q4_K_S");
  EXPECT_EQ(in_fish(folder, "heddle run --grammar st"), "story.txt");
  EXPECT_EQ(in_fish(folder, "heddle run we"), "weft");
  EXPECT_EQ(in_fish(folder, "heddle run --prompt st"), "");
  EXPECT_EQ(in_fish(folder, "heddle completion "), "bash fish zsh");
  EXPECT_EQ(in_fish(folder, "heddle run qw"), "qwen3:0.6b");
  EXPECT_EQ(in_fish(folder, "heddle show org/repo:Q"), "org/repo:Q4_K_M org/repo:Q8_0");
  EXPECT_EQ(in_fish(folder, "heddle perplexity weft story.txt --kl org/repo:Q4"), "org/repo:Q4_K_M");
  EXPECT_FALSE(std::filesystem::exists(folder.file("broken"))) << "names are no commands";
  EXPECT_EQ(shell("HOME=$PWD fish --no-config -c " +
                  shell_quoted("source " + folder.file("heddle.fish").string() + "; complete -C 'heddle bench ser'"))
                .out,
            "serve-sim\tThroughput and latency of many synthetic requests at once, without a network\n");
}

// A zsh in a terminal, in which a function prints the line that the tabulator completed.
TEST(Completion, ZshSlow) {
  if (!is_installed("zsh")) GTEST_SKIP() << "there is no zsh";
  const CompletionFolder folder;
  folder.write("_heddle", heddle({"completion", "zsh"}).out);
  const std::string typed = folder.write("type.zsh", R"(zmodload zsh/zpty || exit 77
zpty shell zsh -f -i
zpty -w shell 'PS1=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; setopt no_beep'
zpty -w shell 'heddle() { [[ $1 == models ]] && { command heddle "$@"; return }; print -r -- "GOT:$*;" }; print READY'
zpty -r shell out '*READY*READY*'
for line in $'quan\t --allow\t' $'bench cl\t --json\t' $'help ptx sho\t' $'quantize --type IQ4_N\t' $'run --grammar st\t' \
    $'run we\t' $'completion zs\t' $'serve --tls-c\tx' $'run qwe\t' $'show org/repo:Q8\t' $'run -p x org/repo:Q4\t'; do
  zpty -w -n shell "heddle $line"$'\n'
  zpty -r shell out '*GOT:*;*'
  print -r -- "${${out##*GOT:}%%;*}"
done
zpty -d shell
)");
  const Ran ran = shell(folder.enter() + "timeout 60 zsh -f " + typed);
  if (ran.status == 77) GTEST_SKIP() << "this zsh has no zpty";
  EXPECT_EQ(ran.out,
            "quantize --allow-requantize\nbench client --json\nhelp ptx show\nquantize --type IQ4_NL\n"
            "run --grammar story.txt\nrun weft\ncompletion zsh\nserve --tls-cert=x\nrun qwen3:0.6b\n"
            "show org/repo:Q8_0\nrun -p x org/repo:Q4_K_M\n");
}

TEST(Completion, RefusesOtherShells) {
  const Result result = heddle({"completion", "tcsh"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "heddle: SHELL: expected bash, zsh or fish, found \"tcsh\"\n");
  EXPECT_EQ(heddle({"completion"}).status, 2);
}

}  // namespace
}  // namespace heddle
