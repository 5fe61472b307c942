#!/usr/bin/env bash
# Prints an .env for docker-compose.yml: every secret that it asks for, made up. Two lines are left to fill in.
set -euo pipefail
cd "$(dirname "$0")/.."

required=$(grep -v '^#' docker-compose.yml | grep -o '\${BA_[A-Z_]*:?' | tr -d '${:?' | sort -u)
for name in $required; do
    case $name in
        BA_FCM_CREDENTIALS_DIR) printf '# A folder with the Firebase project'\''s service-account.json, readable by user 10001.\n%s=\n' "$name" ;;
        BA_TELEGRAM_BOT_TOKEN) printf '# As BotFather gave it.\n%s=\n' "$name" ;;
        # 32 bytes in URL-safe base64: a Fernet key.
        BA_SECRET_KEYS) echo "$name=$(openssl rand -base64 32 | tr '+/' '-_')" ;;
        *) echo "$name=p$(openssl rand -hex 16)" ;;
    esac
done
