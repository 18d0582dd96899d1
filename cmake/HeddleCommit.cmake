# cmake -D SOURCE=FOLDER -D HEADER=FILE [-D COMMIT=TEXT -D DATE=YYYY-MM-DD] -P: writes the commit that is being built as a
# header, at every build; the file is touched only where it changed. Without COMMIT git is asked; sources without git
# have none.
if(NOT COMMIT)
  execute_process(COMMAND git -C ${SOURCE} describe --always --abbrev=12 --exclude=* --dirty=+
    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND git -C ${SOURCE} log -1 --format=%cs
    OUTPUT_VARIABLE DATE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
configure_file(${SOURCE}/src/base/commit.h.in ${HEADER} @ONLY)
