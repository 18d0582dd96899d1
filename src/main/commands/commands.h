// Every command of the program: adds itself to the parser, runs while it parses, and sets the exit status if it is not
// 0.
#pragma once
#include <iosfwd>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace CLI {
class App;
}

namespace heddle {

void describe_chat(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status);
void describe_run(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status);
void describe_logits(CLI::App& program, std::ostream& out, std::ostream& err, int& status);
void describe_follow(CLI::App& program, std::ostream& err, int& status);
void describe_embed(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err);  // embed, rerank
void describe_perplexity(CLI::App& program, std::ostream& out, std::ostream& err);
void describe_serve(CLI::App& program, std::ostream& out, std::ostream& err, int& status);
void describe_health(CLI::App& program, std::ostream& out);
void describe_inspect(CLI::App& program, std::ostream& out);
void describe_models(CLI::App& program, std::ostream& out, std::ostream& err);
void describe_show(CLI::App& program, std::ostream& out);
void describe_pull(CLI::App& program, std::ostream& out, std::ostream& err, int& status);
void describe_rm(CLI::App& program, std::ostream& out);
void describe_plan(CLI::App& program, std::ostream& out, int& status);
void describe_text(CLI::App& program, std::istream& in, std::ostream& out,
                   std::ostream& err);  // tokenize, detokenize, template
void describe_grammar(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err);  // grammar check
void describe_model_files(CLI::App& program, std::ostream& out, std::ostream& err);  // convert, quantize, synth
void describe_ptx(CLI::App& program, std::ostream& out, std::ostream& err, int& status);
void describe_devices(CLI::App& program, std::ostream& out);
void describe_selftest(CLI::App& program, std::ostream& out, std::ostream& err, int& status);
void describe_tune(CLI::App& program, std::ostream& out, std::ostream& err);
void describe_completion(CLI::App& program, std::ostream& out);
void describe_manual(CLI::App& program);
void describe_bench_kernels(CLI::App& bench, std::ostream& out, std::ostream& err, int& status);

// heddle alone: a story by weft, and what to try next. The exit status.
int welcome(std::ostream& out, std::ostream& err);

// --json: what is printed is for a program, and no progress is shown beside it.
void describe_json(CLI::App& command, bool& json, const char* text = "Print JSON");

// Token ids separated by spaces, commas or brackets, as tokenize prints them. An Error names what is not a number.
void read_ids(std::string_view list, std::vector<text::TokenId>& ids);

}  // namespace heddle
