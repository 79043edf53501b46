// Ctrl-C and SIGTERM as a stop token, and waits that a token ends.
//
// stop_on_signals() installs the handlers once for the whole program: the first signal asks to stop, so that the work in
// hand can be saved; a second one ends the program at once with exit code 130. Safe from any thread.
#pragma once

#include <stop_token>

namespace aerie {

std::stop_token stop_on_signals();

// Sleeps so long, or until asked to stop; true when the whole time has passed.
bool sleep_for(double seconds, std::stop_token stop);

}  // namespace aerie
