// strftime_utc().
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/functions.h"

namespace heddle::text::jinja {
namespace {

struct Date {
  int64_t year, seconds;
  int month, day, hour, minute, second, weekday, yearday;  // month and day from 1; weekday 0 is Sunday
};

bool is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

Date split_time(int64_t seconds) {
  const int64_t days = seconds / 86400 - (seconds % 86400 < 0);
  const int64_t rest = seconds - days * 86400;
  // Counted in eras of 400 years from March 1st of year 0, so that a leap day ends its year.
  const int64_t shifted = days + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const int64_t of_era = shifted - era * 146097;
  const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month_from_march = (5 * of_year + 2) / 153;
  Date date{};
  date.seconds = seconds;
  date.day = int(of_year - (153 * month_from_march + 2) / 5 + 1);
  date.month = int(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
  date.year = year_of_era + era * 400 + (date.month <= 2);
  date.hour = int(rest / 3600);
  date.minute = int(rest / 60 % 60);
  date.second = int(rest % 60);
  date.weekday = int(((days + 4) % 7 + 7) % 7);
  static constexpr std::array<int, 12> before = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  date.yearday = before[size_t(date.month - 1)] + date.day + (date.month > 2 && is_leap(date.year));
  return date;
}

struct IsoWeek {
  int64_t year;
  int week;
};
IsoWeek iso_week(const Date& date) {
  const int weekday = date.weekday == 0 ? 7 : date.weekday;
  const auto weeks_in = [](int64_t year) {
    const auto last_weekday = [](int64_t y) { return (y + y / 4 - y / 100 + y / 400) % 7; };
    return last_weekday(year) == 4 || last_weekday(year - 1) == 3 ? 53 : 52;
  };
  const int week = (date.yearday - weekday + 10) / 7;
  if (week < 1) return {date.year - 1, weeks_in(date.year - 1)};
  if (week > weeks_in(date.year)) return {date.year + 1, 1};
  return {date.year, week};
}

constexpr std::array<std::string_view, 7> weekdays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                      "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months = {"January",   "February", "March",    "April",
                                                     "May",       "June",     "July",     "August",
                                                     "September", "October",  "November", "December"};

std::string directive(char letter, const Date& d) {
  const std::string_view weekday = weekdays[size_t(d.weekday)], month = months[size_t(d.month - 1)];
  const int hour12 = d.hour % 12 == 0 ? 12 : d.hour % 12;
  switch (letter) {
    case 'a':
      return std::string(weekday.substr(0, 3));
    case 'A':
      return std::string(weekday);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'c':
      return fmt::format("{} {} {:2} {:02}:{:02}:{:02} {}", weekday.substr(0, 3), month.substr(0, 3), d.day, d.hour,
                         d.minute, d.second, d.year);
    case 'C':
      return fmt::format("{:02}", d.year / 100);
    case 'd':
      return fmt::format("{:02}", d.day);
    case 'D':
    case 'x':
      return fmt::format("{:02}/{:02}/{:02}", d.month, d.day, d.year % 100);
    case 'e':
      return fmt::format("{:2}", d.day);
    case 'f':
      return "000000";
    case 'F':
      return fmt::format("{}-{:02}-{:02}", d.year, d.month, d.day);
    case 'g':
      return fmt::format("{:02}", iso_week(d).year % 100);
    case 'G':
      return fmt::format("{}", iso_week(d).year);
    case 'H':
      return fmt::format("{:02}", d.hour);
    case 'I':
      return fmt::format("{:02}", hour12);
    case 'j':
      return fmt::format("{:03}", d.yearday);
    case 'k':
      return fmt::format("{:2}", d.hour);
    case 'l':
      return fmt::format("{:2}", hour12);
    case 'm':
      return fmt::format("{:02}", d.month);
    case 'M':
      return fmt::format("{:02}", d.minute);
    case 'n':
      return "\n";
    case 'p':
      return d.hour < 12 ? "AM" : "PM";
    case 'P':
      return d.hour < 12 ? "am" : "pm";
    case 'r':
      return fmt::format("{:02}:{:02}:{:02} {}", hour12, d.minute, d.second, d.hour < 12 ? "AM" : "PM");
    case 'R':
      return fmt::format("{:02}:{:02}", d.hour, d.minute);
    case 's':
      return fmt::format("{}", d.seconds);
    case 'S':
      return fmt::format("{:02}", d.second);
    case 't':
      return "\t";
    case 'T':
    case 'X':
      return fmt::format("{:02}:{:02}:{:02}", d.hour, d.minute, d.second);
    case 'u':
      return fmt::format("{}", d.weekday == 0 ? 7 : d.weekday);
    case 'U':
      return fmt::format("{:02}", (d.yearday + 6 - d.weekday) / 7);
    case 'V':
      return fmt::format("{:02}", iso_week(d).week);
    case 'w':
      return fmt::format("{}", d.weekday);
    case 'W':
      return fmt::format("{:02}", (d.yearday + 6 - (d.weekday + 6) % 7) / 7);
    case 'y':
      return fmt::format("{:02}", d.year % 100);
    case 'Y':
      return fmt::format("{}", d.year);
    case 'z':
    case 'Z':
      return "";  // Python prints nothing for a time without a zone
    case '%':
      return "%";
    default:
      return std::string{'%', letter};
  }
}

// "%-d" and its kin: no padding.
std::string without_padding(std::string text) {
  if (text.empty()) return text;
  return text.substr(std::min(text.find_first_not_of("0 "), text.size() - 1));
}

}  // namespace

std::string strftime_utc(std::string_view format, int64_t seconds) {
  const Date date = split_time(seconds);
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out += format[at];
    } else if (format[at + 1] == '-' && at + 2 < format.size()) {
      out += without_padding(directive(format[at + 2], date));
      at += 2;
    } else {
      out += directive(format[++at], date);
    }
  }
  return out;
}

}  // namespace heddle::text::jinja
