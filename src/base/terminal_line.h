// The one line at the bottom of the terminal that is drawn over and over: a progress bar. Log lines pause it.
//
// Global, because stderr is; safe from any thread. Does nothing where stderr is no terminal. Private to base.
#pragma once

#include <string>

namespace aerie {

class TerminalLine {
 public:
  static bool is_terminal();
  static int columns();                       // 80 when unknown
  static void show(const std::string& text);  // replaces the line; cut to the terminal's width
  static void end();                          // leaves the last line standing and starts a new one

  // While one lives, the line is cleared; afterwards it is drawn again.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };
};

}  // namespace aerie
