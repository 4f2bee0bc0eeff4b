"""The words by which tables of people name their columns and codes, in nine languages.

Words of languages that are written without blanks are looked for anywhere in a name (平均头动 is motion because it
holds 头动); words of the others must stand alone (Alter, not Halter). Case and accents do not count.
"""

import re
import unicodedata

#: English, German, French, Spanish, Portuguese, Italian; then Chinese (both scripts), Japanese and Korean.
COLUMNS = {
    "subject": "participant subject subj sub id code pseudonym record proband versuchsperson sujet sujeto "
    "sujeito soggetto participante partecipante 编号 編號 被试 被試 受试者 受試者 "
    "被験者 参加者 識別 피험자 대상자 참가자 번호",
    "site": "site center centre scanner location hospital institution institute clinic recruited recruitment city "
    "university facility zentrum standort klinik ort centro centre hopital ville sede ospedale clinica ciudad "
    "cidade citta 中心 站点 站點 机构 機構 医院 醫院 扫描仪 掃描儀 地点 地點 "
    "施設 機関 拠点 病院 大学 サイト スキャナ 기관 센터 병원 사이트",
    "label": "diagnosis dx diag label group grp patient status case condition disorder diagnose gruppe groupe "
    "diagnostic diagnostico diagnosi grupo gruppo statut estado stato "
    "诊断 診斷 組別 组别 分组 分組 診断 群 疾患 患病 疾病 病名 类别 類別 진단 집단 그룹",
    "age": "age years alter edad idade eta 年龄 年齡 年齢 나이 연령",
    "sex": "sex gender geschlecht sexe genre sexo genero sesso genere 性别 性別 성별",
    "mean_fd": "motion movement bewegung kopfbewegung mouvement movimiento movimento 头动 頭動 頭部運動 体動 움직임",
}
CONTROLS = (
    "control controls healthy healthycontrol healthycontrols healthyvolunteer typical comparison typicallydeveloping "
    "typicallydevelopingcontrol neurotypical normal normalcontrol unaffected cognitivelynormal nonpatient "
    "negative none hc hcs td tc tdc nc cn hv nt ctrl ctl con cont "
    "kontrolle kontrollen kontrollgruppe gesund gesunde gesunder temoin temoins sain sains controle controles "
    "keine kein aucun aucune ninguno ninguna nenhum nenhuma nessuno nessuna "
    "sano sanos sana saudavel saudaveis controllo controlli sani "
    "对照 對照 健康 正常 健康对照 健康對照 正常对照 正常對照 对照组 對照組 健康对照组 正常对照组 健康人 "
    "健常 健常者 健常群 健常対照 対照 対照群 統制群 정상 정상군 정상인 대조 대조군 정상대조 정상대조군 "
    "건강대조군 건강인"
)
MALE = (
    "male man men boy mann mannlich maennlich homme masculin hombre masculino uomo maschio maschile varon homem "
    "mannelijk 男 男性 男生 男子 남 남자 남성"
)
FEMALE = (
    "female woman women girl frau weiblich femme feminin mujer femenino feminino mulher donna femmina femminile vrouw "
    "vrouwelijk 女 女性 女生 女子 여 여자 여성"
)
WHOLE = re.compile(r"[a-z]+|\d+|[^\W\d_a-z]+")


def plain(text: str) -> str:
    """Text without case, accents and ways to compose a letter; Korean syllables stay whole.

    >>> plain("Männlich"), plain("ＡＧＥ"), plain("성별")
    ('mannlich', 'age', '성별')
    """
    letters = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFC", "".join(c for c in letters if not "\u0300" <= c <= "\u036f"))


def words_in(name: str) -> set[str]:
    """The words of a name, as in ``SubID``, ``sub_id`` and ``Sub ID``.

    >>> sorted(words_in("DxGroup (1=patient)")), sorted(words_in("平均头动FD"))
    (['1', 'dx', 'group', 'patient'], ['fd', '平均头动'])
    """
    return set(WHOLE.findall(plain(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))))


def names_role(name: str, role: str) -> bool:
    """Whether the name of a column speaks of a role, one of `COLUMNS`.

    >>> names_role("Alter bei Scan", "age"), names_role("被试编号", "subject"), names_role("storage", "age")
    (True, True, False)
    """
    words = words_in(name)
    return bool(words & ROLES[role]) or any(part in word for word in words for part in UNSPACED[role])


def _sets(words: str) -> tuple[set[str], set[str]]:
    """Words that stand alone, and those of languages without blanks."""
    every = set(map(plain, words.split()))
    latin = {word for word in every if word.isascii()}
    return latin, every - latin


ROLES = {role: _sets(words)[0] for role, words in COLUMNS.items()}
UNSPACED = {role: _sets(words)[1] for role, words in COLUMNS.items()}
CONTROL_WORDS = set(map(plain, CONTROLS.split()))
#: Every word of a language without blanks: where a decoding gives some of them, it is the right one.
FOREIGN = {
    word
    for words in [*COLUMNS.values(), CONTROLS, MALE, FEMALE, "患者 患者群 病人 환자 환자군"]
    for word in words.split()
    if not word.isascii() and len(word) > 1
}
