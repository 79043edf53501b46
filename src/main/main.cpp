#include "app/app.h"

int main(int argc, char** argv) { return aerie::run_app(argc, argv); }
