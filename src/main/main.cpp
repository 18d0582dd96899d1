#include <iostream>

#include "main/commands/command_line.h"

int main(int count, char** words) {
  return heddle::run_command_line(std::vector<std::string>(words + 1, words + count), std::cin, std::cout, std::cerr);
}
