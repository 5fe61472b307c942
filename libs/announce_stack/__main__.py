import sys

from announce_stack.cli import main

sys.exit(main())
