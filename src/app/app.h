// The command line of aerie: one function a subcommand, exit codes of design.md section 4, the pipeline.
//
// Runs on the calling thread; Ctrl-C and SIGTERM become a stop token that every stage obeys.
#pragma once

namespace aerie {

// Parses argv, runs the subcommand, prints its error as one sentence on stderr, and returns the exit code.
int run_app(int argc, char** argv);

}  // namespace aerie
