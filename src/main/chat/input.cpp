// libedit knows neither bracketed paste nor messages of several lines nor how to redraw after a resize: keys are bound
// to functions here, and characters are read here.
#include "main/chat/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <istream>
#include <ostream>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"
#include "main/chat/word_wrap.h"

namespace heddle {
namespace {

// A message is remembered in a form that can be sent again: joined lines, and a quoted text with its quotes.
constexpr std::string_view quotes = "\"\"\"", first_prompt = "> ", next_prompt = "... ";

// The next line of a message that has begun.
Line read_more(LineSource& lines, const char* missing) {
  Line line = lines.read(next_prompt);
  if (line.kind == Line::Kind::end) throw Error("the input ended inside a message: expected {}", missing);
  return line;
}

Input quoted_message(LineSource& lines, std::string text) {
  Input input{.kind = Line::Kind::text, .quoted = true};
  const auto closed = [&text] { return text.size() >= 2 * quotes.size() && text.ends_with(quotes); };
  while (!closed()) {
    Line line = read_more(lines, "\"\"\"");
    if (line.kind == Line::Kind::interrupted) return {.kind = line.kind, .text = text};
    text += '\n' + line.text;
  }
  lines.remember(text);
  text = text.substr(quotes.size(), text.size() - 2 * quotes.size());
  // quotes on lines of their own add no empty lines
  if (text.starts_with('\n')) text.erase(0, 1);
  if (text.ends_with('\n')) text.pop_back();
  input.text = std::move(text);
  return input;
}

constexpr int history_messages = 1000;
constexpr size_t max_remembered = 64 << 10;  // characters of a message in the history

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
    const bool surrogate = c >= 0xd800 && c < 0xe000;  // libedit's way to keep invalid bytes
    append_utf8(result, surrogate || c > 0x10ffff ? U'\uFFFD' : char32_t(c));
  }
  return result;
}

constexpr const char *paste_marked = "\x1b[?2004h", *paste_unmarked = "\x1b[?2004l";  // by the terminal

void say(const char* text) {
  std::fputs(text, stdout);
  std::fflush(stdout);
}

// Wakes the wait for a key when the terminal has a new size. The signal may interrupt any thread, so the
// handler writes into a pipe.
class Resizes {
 public:
  Resizes() {
    check(::pipe2(pipe_, O_NONBLOCK | O_CLOEXEC) == 0, "a pipe can be made");
    watch();
  }
  ~Resizes() {
    ::signal(SIGWINCH, SIG_DFL);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  Resizes(const Resizes&) = delete;
  Resizes& operator=(const Resizes&) = delete;

  void watch() const {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      const int before = errno;
      (void)!::write(pipe_[1], "", 1);  // a full pipe says it already
      errno = before;
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGWINCH, &action, nullptr);
  }
  // Waits for the descriptor or a resize. True: a resize.
  bool wait_for_input(int descriptor) const {
    pollfd both[] = {{.fd = descriptor, .events = POLLIN, .revents = 0},
                     {.fd = pipe_[0], .events = POLLIN, .revents = 0}};
    while (::poll(both, 2, -1) < 0 && errno == EINTR) continue;
    bool resized = false;
    for (char byte = 0; ::read(pipe_[0], &byte, 1) == 1;) resized = true;
    return resized;
  }

 private:
  static inline int pipe_[2] = {-1, -1};  // of the one that lives
};

}  // namespace

Line StreamLines::read(std::string_view prompt) {
  if (prompts_) *prompts_ << prompt << std::flush;
  std::string text;
  if (!std::getline(in_, text)) return {};
  if (text.ends_with('\r')) text.pop_back();
  return {.kind = Line::Kind::text, .text = std::move(text)};
}

Input read_message(LineSource& lines) {
  Line line = lines.read(first_prompt);
  if (line.kind != Line::Kind::text) return {.kind = line.kind, .text = line.text};
  if (line.text.starts_with(quotes)) return quoted_message(lines, std::move(line.text));
  std::string text = std::move(line.text);
  while (text.ends_with('\\')) {
    text.back() = '\n';
    line = read_more(lines, "the line after the backslash");
    if (line.kind == Line::Kind::interrupted) return {.kind = line.kind, .text = text};
    text += line.text;
  }
  if (text.find_first_not_of(" \t\n") != text.npos) lines.remember(text);
  return {.kind = Line::Kind::text, .text = std::move(text)};
}

struct LineEditor::Impl {
  EditLine* editor = nullptr;
  HistoryW* history = nullptr;
  std::filesystem::path path;
  Completions completions;
  std::wstring prompt;
  Resizes resizes;
  std::string unread;  // bytes of a character that is not complete
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
    el_wpush(editor, L"\n");  // end the line as Enter does, with the cursor below all rows
    return CC_NORM;
  }

  static unsigned char suspend(EditLine* editor, wint_t) {
    say(paste_unmarked);
    el_wset(editor, EL_PREP_TERM, 0);
    struct sigaction stop = {}, before = {};
    stop.sa_handler = SIG_DFL;
    ::sigaction(SIGTSTP, &stop, &before);
    ::raise(SIGTSTP);  // returns when the shell continues the program
    ::sigaction(SIGTSTP, &before, nullptr);
    el_wset(editor, EL_PREP_TERM, 1);
    say(paste_marked);
    return CC_REDISPLAY;
  }

  // One character, in place of libedit's own function, which does not redraw the line after a resize.
  static int read_character(EditLine* editor, wchar_t* character) {
    Impl& self = of(editor);
    self.resizes.watch();  // libedit puts a handler of its own in place for every line
    while (self.unread.empty() || (incomplete_utf8_tail(self.unread) == self.unread.size() && self.unread.size() < 4)) {
      if (self.resizes.wait_for_input(STDIN_FILENO)) {
        self.redraw();
        continue;
      }
      char byte = 0;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return int(count);
      self.unread += byte;
    }
    const CodePoint point = code_point_at(self.unread, 0);
    self.unread.erase(0, point.bytes);
    *character = wchar_t(point.value);
    return 1;
  }

  // The terminal has laid out the rows anew, so that the prompt is as far above the cursor as the new width makes it.
  void redraw() {
    el_resize(editor);
    int columns = 0;
    el_wget(editor, EL_GETTC, "co", &columns, nullptr);
    const LineInfoW* line = el_wline(editor);
    size_t row = 0, column = 0;
    for (const wchar_t c : prompt + std::wstring(line->buffer, line->cursor)) {
      if (c == L'\n') {
        ++row;
        column = 0;
        continue;
      }
      const size_t cells = cells_of(char32_t(c));
      const bool next_row = columns > 0 && column + cells > size_t(columns);
      row += next_row;
      column = (next_row ? 0 : column) + cells;
    }
    row += columns > 0 && column == size_t(columns);
    say(fmt::format("\r{}\x1b[J", row ? fmt::format("\x1b[{}A", row) : "").c_str());
    el_wset(editor, EL_REFRESH);
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

  // Everything up to the end of the paste is text, line breaks included.
  static unsigned char paste(EditLine* editor, wint_t) {
    constexpr std::wstring_view end = L"\x1b[201~";
    std::wstring text;
    wchar_t c = 0;
    while (!text.ends_with(end)) {
      if (el_wgetc(editor, &c) <= 0) return CC_EOF;
      if (c == L'\n' && text.ends_with(L'\r')) text.pop_back();
      if (c == 3) return interrupt(editor, c);  // not part of any paste: its end was lost
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
    std::filesystem::create_directories(path.parent_path(), failure);  // saving reports a failure
    if (std::filesystem::exists(path, failure)) history_w(history, &event, H_LOAD, path.c_str());
  }

  void save_history() {
    if (path.empty()) return;
    HistEventW event;
    errno = 0;
    const mode_t before = ::umask(0077);  // messages are private
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
  el_wset(editor, EL_SIGNAL, 1);  // a signal that ends the program leaves the terminal in order
  el_wset(editor, EL_GETCFN, Impl::read_character);
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
  if (message.size() > max_remembered) return;
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
