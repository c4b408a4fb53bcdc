/* Runs a command; prints the seconds until it has ended, and its peak memory in KB. A small program does this, because a
   process inherits the peak of the one that starts it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
  struct timespec began, ended;
  struct rusage used;
  int status = 0;
  if (count < 2) return 2;
  clock_gettime(CLOCK_MONOTONIC, &began);
  pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), 1);
    execv(words[1], words + 1);
    _exit(127);
  }
  if (wait4(child, &status, 0, &used) != child) return 3;
  clock_gettime(CLOCK_MONOTONIC, &ended);
  double seconds = (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec);
  printf("%.6f %ld\n", seconds, used.ru_maxrss);
  return status != 0;
}
