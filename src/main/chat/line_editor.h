// Lines typed at a terminal: editing, history and pasting, by libedit. The only page that knows of it is
// line_editor.cpp.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "main/chat/input.h"

namespace heddle {

class LineEditor : public LineSource {
 public:
  using Completions = std::function<std::vector<std::string>(std::string_view before_cursor)>;

  // On standard input and output. `history`: the file it is kept in, made where there is none; empty: nowhere.
  LineEditor(std::filesystem::path history, Completions completions);
  ~LineEditor() override;

  Line read(std::string_view prompt) override;
  void remember(const std::string& message) override;
  // Why the history cannot be kept: empty, or one line.
  std::string complaint() const;

  // Standard input and output are a terminal that can do it.
  static bool possible();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// $XDG_STATE_HOME/heddle/chat_history, or the same in ~/.local/state; empty if there is no home.
std::filesystem::path chat_history_path();

}  // namespace heddle
