// Lines in order, and none that waits for a reader.
#include "main/serve/log_writer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

namespace heddle::test {
namespace {

TEST(LogWriter, WritesAllLinesOfAllThreads) {
  std::ostringstream out;
  {
    LogWriter log(out);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 500; ++i) log.write(std::to_string(t) + " " + std::to_string(i));
      });
    for (std::thread& thread : threads) thread.join();
  }
  std::istringstream lines(out.str());
  std::vector<int> next(4);
  for (int t = 0, i = 0; lines >> t >> i;) EXPECT_EQ(next.at(size_t(t))++, i);
  EXPECT_EQ(next, std::vector<int>(4, 500));
}

// A reader that stops: no writer waits for it, and dropped lines are counted.
class Stuck : public std::stringbuf {
 public:
  void go_on() {
    const std::lock_guard lock(mutex_);
    stuck_ = false;
    changed_.notify_all();
  }
  bool waits() {
    const std::lock_guard lock(mutex_);
    return waits_;
  }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    std::unique_lock lock(mutex_);
    waits_ = true;
    changed_.wait(lock, [this] { return !stuck_; });
    return std::stringbuf::xsputn(text, size);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stuck_ = true, waits_ = false;
};

TEST(LogWriter, DoesNotWaitForItsReader) {
  Stuck buffer;
  std::ostream out(&buffer);
  {
    LogWriter log(out, 3);
    log.write("a");
    while (!buffer.waits()) std::this_thread::yield();
    for (const char* line : {"b", "c", "d", "e", "f"}) log.write(line);
    EXPECT_EQ(log.lost(), 2u);
    buffer.go_on();
  }
  EXPECT_EQ(buffer.str(), "a\nb\nc\nd\n{\"lost_lines\":2}\n");
}

TEST(LogWriter, EndsWithoutItsReader) {
  static Stuck buffer;  // the thread that waits for it is left behind
  static std::ostream out(&buffer);
  bool stuck = false;
  {
    LogWriter log(out, 3, &stuck);
    log.write("a");
    while (!buffer.waits()) std::this_thread::yield();
  }
  EXPECT_TRUE(stuck);
  buffer.go_on();
}

}  // namespace
}  // namespace heddle::test
