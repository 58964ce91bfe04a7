/* What a user's program does first: includes the umbrella header and asks for the version. */
#include <lockstep/lockstep.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    printf("%s\n", ls_version());
    return strcmp(ls_version(), LS_VERSION) != 0;
}
