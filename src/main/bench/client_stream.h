// The answer to one request as its bytes come: head, chunks, and the events of a stream.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

class AnswerStream {
 public:
  // Of what stands behind "data: " in each event; other bodies are kept as they are.
  explicit AnswerStream(std::function<void(std::string_view)> event) : event_(std::move(event)) {}

  // Throws an Error for what is not HTTP. True: it is whole, and what follows belongs to the next.
  bool take(std::string_view bytes);
  bool ends_with_connection() const { return part_ == Part::to_end; }  // it has no other end

  unsigned status() const { return status_; }
  bool keeps_alive() const { return keep_alive_; }
  const std::string& body() const { return body_; }  // of one that is no stream of events

 private:
  enum class Part { head, chunk_size, chunk, chunk_end, last, counted, to_end, whole };
  void head_came(std::string_view head);
  void add(std::string_view text);
  std::optional<std::string> line();

  std::function<void(std::string_view)> event_;
  Part part_ = Part::head;
  std::string rest_, body_;
  size_t left_ = 0;  // bytes of the chunk, or of the body
  unsigned status_ = 0;
  bool keep_alive_ = true, events_ = false;
};

}  // namespace heddle
