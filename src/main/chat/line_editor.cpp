// Keys are bound to functions here: libedit knows neither bracketed paste nor messages of several lines.
#include "main/chat/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {
namespace {

constexpr int history_messages = 1000;
constexpr size_t longest_remembered = 64 << 10;  // characters

std::wstring wide(std::string_view text) {
  std::wstring result;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    result += wchar_t(point.value);
    at += point.bytes;
  }
  return result;
}

std::string narrow(std::wstring_view text) {
  std::string result;
  for (wchar_t c : text) {
    const bool surrogate = c >= 0xd800 && c < 0xe000;  // libedit's way to keep bytes that are no UTF-8
    append_utf8(result, surrogate || c > 0x10ffff ? U'\uFFFD' : char32_t(c));
  }
  return result;
}

constexpr const char *paste_marked = "\x1b[?2004h", *paste_unmarked = "\x1b[?2004l";  // by the terminal

void say(const char* text) {
  std::fputs(text, stdout);
  std::fflush(stdout);
}

}  // namespace

struct LineEditor::Impl {
  EditLine* editor = nullptr;
  HistoryW* history = nullptr;
  std::filesystem::path path;
  Completions completions;
  std::wstring prompt;
  bool interrupted = false;
  std::string complaint;

  static Impl& of(EditLine* editor) {
    void* self = nullptr;
    el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }

  void bind(const wchar_t* key, const wchar_t* function) {
    check(el_wset(editor, EL_BIND, key, function, nullptr) == 0, "libedit binds every key");
  }
  void add(const wchar_t* key, const wchar_t* name, const wchar_t* help, unsigned char (*function)(EditLine*, wint_t)) {
    check(el_wset(editor, EL_ADDFN, name, help, function) == 0, "libedit takes every function");
    bind(key, name);
  }

  static unsigned char interrupt(EditLine* editor, wint_t) {
    of(editor).interrupted = true;
    el_wpush(editor, L"\n");  // ends the line as Enter does: the cursor goes below all of it
    return CC_NORM;
  }

  static unsigned char suspend(EditLine*, wint_t) {
    say(paste_unmarked);
    ::raise(SIGTSTP);  // libedit's handler puts the terminal in order, before and after
    say(paste_marked);
    return CC_REDISPLAY;
  }

  static unsigned char end_or_delete(EditLine* editor, wint_t) {
    const LineInfoW* line = el_wline(editor);
    if (line->lastchar == line->buffer) return CC_EOF;
    if (line->cursor == line->lastchar) return CC_ERROR;
    el_cursor(editor, 1);
    el_deletestr(editor, 1);
    return CC_REFRESH;
  }

  static unsigned char insert_break(EditLine* editor, wint_t) {
    return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
  }

  // Everything up to the end of the paste is text: line breaks are part of it.
  static unsigned char paste(EditLine* editor, wint_t) {
    constexpr std::wstring_view end = L"\x1b[201~";
    std::wstring text;
    wchar_t c = 0;
    while (!text.ends_with(end)) {
      if (el_wgetc(editor, &c) <= 0) return CC_EOF;
      if (c == L'\n' && text.ends_with(L'\r')) text.pop_back();
      if (c == 3) return interrupt(editor, c);  // no terminal sends it in a paste: the end has been lost
      if (c != 0) text += c;
    }
    text.resize(text.size() - end.size());
    std::replace(text.begin(), text.end(), L'\r', L'\n');
    return text.empty() || el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  static unsigned char complete(EditLine* editor, wint_t) {
    const LineInfoW* line = el_wline(editor);
    const std::string before = narrow({line->buffer, size_t(line->cursor - line->buffer)});
    const std::vector<std::string> found = of(editor).completions(before);
    if (found.empty()) return CC_ERROR;
    std::string common = found[0];
    for (const std::string& each : found)
      common.resize(
          size_t(std::mismatch(common.begin(), common.end(), each.begin(), each.end()).first - common.begin()));
    if (common.size() > before.size())
      return el_winsertstr(editor, wide(common.substr(before.size())).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    say("\n");
    for (const std::string& each : found) say((each + "\n").c_str());
    return CC_REDISPLAY;
  }

  void open_history() {
    history = history_winit();
    check(history != nullptr, "libedit makes a history");
    HistEventW event;
    history_w(history, &event, H_SETSIZE, history_messages);
    history_w(history, &event, H_SETUNIQUE, 1);
    el_wset(editor, EL_HIST, history_w, history);
    if (path.empty()) return;
    std::error_code failure;
    std::filesystem::create_directories(path.parent_path(), failure);  // where it fails, saving says so
    if (std::filesystem::exists(path, failure)) history_w(history, &event, H_LOAD, path.c_str());
  }

  void save_history() {
    if (path.empty()) return;
    HistEventW event;
    errno = 0;
    const mode_t before = ::umask(0077);  // what was said is nobody else's business
    const int saved = history_w(history, &event, H_SAVE, path.c_str());
    const int reason = errno;
    ::umask(before);
    if (saved >= 0) return;
    complaint = fmt::format("{}: the history is not kept: {}", path.string(),
                            std::generic_category().message(reason ? reason : EIO));
    path.clear();
  }
};

LineEditor::LineEditor(std::filesystem::path history, Completions completions) : impl_(std::make_unique<Impl>()) {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
  impl_->path = std::move(history);
  impl_->completions = std::move(completions);
  impl_->editor = el_init("heddle", stdin, stdout, stderr);
  if (!impl_->editor) throw Error("the terminal cannot be used for editing: {}", std::strerror(errno));
  EditLine* editor = impl_->editor;
  el_wset(editor, EL_CLIENTDATA, impl_.get());
  el_wset(
      editor, EL_PROMPT, +[](EditLine* of) { return Impl::of(of).prompt.data(); });
  el_wset(editor, EL_EDITOR, L"emacs");
  el_wset(editor, EL_SIGNAL, 1);                        // a window of another size, Ctrl-Z
  el_wset(editor, EL_SETTY, L"-d", L"-isig", nullptr);  // Ctrl-C is a key while a line is edited
  impl_->add(L"^C", L"heddle-interrupt", L"Give up the line", Impl::interrupt);
  impl_->add(L"^Z", L"heddle-suspend", L"Stop for a while", Impl::suspend);
  impl_->add(L"^D", L"heddle-end", L"Leave, or delete a character", Impl::end_or_delete);
  impl_->add(L"\\e\r", L"heddle-break", L"Break the line", Impl::insert_break);
  impl_->bind(L"\\e\n", L"heddle-break");
  impl_->add(L"\\e[200~", L"heddle-paste", L"Insert what is pasted", Impl::paste);
  impl_->add(L"^I", L"heddle-complete", L"Complete a command", Impl::complete);
  impl_->bind(L"^R", L"em-inc-search-prev");
  impl_->bind(L"\\e[3~", L"ed-delete-next-char");
  for (const wchar_t* home : {L"\\e[1~", L"\\e[H", L"\\eOH"}) impl_->bind(home, L"ed-move-to-beg");
  for (const wchar_t* end : {L"\\e[4~", L"\\e[F", L"\\eOF"}) impl_->bind(end, L"ed-move-to-end");
  impl_->bind(L"\\e[1;5C", L"em-next-word");
  impl_->bind(L"\\e[1;5D", L"ed-prev-word");
  impl_->open_history();
}

LineEditor::~LineEditor() {
  history_wend(impl_->history);
  el_end(impl_->editor);
}

Line LineEditor::read(std::string_view prompt) {
  impl_->prompt = wide(prompt);
  impl_->interrupted = false;
  say(paste_marked);
  int count = 0;
  const wchar_t* typed = el_wgets(impl_->editor, &count);
  say(paste_unmarked);
  if (!typed || count <= 0) {
    say("\n");
    return {};
  }
  std::wstring_view line(typed, size_t(count));
  if (line.ends_with(L'\n')) line.remove_suffix(1);
  return {.kind = impl_->interrupted ? Line::Kind::interrupted : Line::Kind::text, .text = narrow(line)};
}

void LineEditor::remember(const std::string& message) {
  if (message.size() > longest_remembered) return;
  HistEventW event;
  history_w(impl_->history, &event, H_ENTER, wide(message).c_str());
  impl_->save_history();
}

std::string LineEditor::complaint() const { return impl_->complaint; }

bool LineEditor::possible() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO) && kind && *kind && std::string_view(kind) != "dumb";
}

std::filesystem::path chat_history_path() {
  namespace fs = std::filesystem;
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state && *state) return fs::path(state) / "heddle/chat_history";
  return home && *home ? fs::path(home) / ".local/state/heddle/chat_history" : fs::path();
}

}  // namespace heddle
