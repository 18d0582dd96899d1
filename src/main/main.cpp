#include <iostream>

#include "base/files.h"
#include "main/commands/command_line.h"
#include "main/process.h"

int main(int count, char** arguments) {
  const heddle::StandardOutput output;
  heddle::MappedFile::explain_bus_errors();
  return heddle::run_command_line(std::vector<std::string>(arguments + 1, arguments + count), std::cin, std::cout,
                                  std::cerr);
}
