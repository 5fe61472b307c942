from announce.runtime.service import run
from ingestd.service import serve

if __name__ == "__main__":
    run("ingestd", serve)
