// Nothing: the target that has compiled headers for others (HeddleRooms.cmake) needs a file.
