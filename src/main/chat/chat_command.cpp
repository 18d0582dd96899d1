// The loop: a message in, an answer out.
#include "main/chat/chat_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/error.h"
#include "main/chat/chat_commands.h"
#include "main/chat/line_editor.h"

namespace heddle {
namespace {

// Until the user leaves or the input ends. False: something was refused.
bool converse(ChatTalk& talk, LineSource& lines, bool terminal, bool stats, std::ostream& out, std::ostream& err) {
  bool fine = true;
  while (true) {
    try {
      const Input input = read_message(lines);
      if (input.kind == Line::Kind::end) return fine;
      if (input.kind == Line::Kind::interrupted) {
        if (input.text.empty()) out << "(Ctrl-D or /quit leaves)" << std::endl;
        continue;
      }
      const size_t answers = talk.answers();
      if (!handle(talk, input, out)) return fine;
      if (stats && talk.answers() != answers) err << figures(*talk.last()) << std::endl;
    } catch (const Error& error) {
      fine = false;
      out << std::flush;
      err << "heddle: " << error.what() << std::endl;
    }
    out << (terminal ? "\n" : "") << std::flush;
  }
}

}  // namespace

void describe_chat(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App* command = program.add_subcommand("chat", "Talk with a model");
  describe_model(*command, options->model);
  command->add_flag("--no-history", options->no_history, "Do not keep what is typed for the next time");
  command->add_flag("--stats", options->stats, "Speeds after every answer");
  describe_answers(*command, options->answers);
  describe_device(*command, options->device);
  command->callback(
      [options, command, &in, &out, &err, &status] { status = chat(*options, ChatSettings(*command), in, out, err); });
}

int chat(const ChatOptions& options, const ChatSettings& settings, std::istream& in, std::ostream& out,
         std::ostream& err) {
  const auto running = open_running(options.model, options.device, &err);
  const bool terminal = &in == &std::cin && &out == &std::cout && LineEditor::possible();
  ChatTalk talk(*running, settings, out, terminal);
  // where the answers go to a file or a pipe, they go there alone
  const std::string backend = running->backend->describe();
  (terminal ? out : err) << fmt::format("{}, context of {} tokens, {}\n", running->model.name, running->model.context,
                                        backend.substr(0, backend.find(" (")))
                         << "/help for commands, Ctrl-D to leave" << std::endl;
  if (!terminal) {
    StreamLines lines(in);
    return converse(talk, lines, terminal, options.stats, out, err) ? 0 : 1;
  }
  LineEditor lines(options.no_history ? std::filesystem::path() : chat_history_path(), completions);
  converse(talk, lines, terminal, options.stats, out, err);
  if (!lines.complaint().empty()) err << "heddle: " << lines.complaint() << '\n';
  return 0;
}

}  // namespace heddle
