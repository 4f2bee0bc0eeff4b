"""Spellings of one name: case, white space, punctuation and invisible characters do not make two sites.

One site under two names is the worst leak there is: leaving out "Site 0" then trains on the people of "SITE0". What is
compared is a name's canonical form; what is kept and shown is the name as it was written.

Here are also the words by which tables of people name their columns and codes, in nine languages.
Words of languages that are written without blanks are looked for anywhere in a name (平均头动 is motion because it
holds 头动); words of the others must stand alone (Alter, not Halter). Case and accents do not count.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from brainroam.errors import DataError, listed

#: What tells scanners, batches or rooms of one house apart, at the end of a site's name.
ROOM = re.compile(
    r"(?:[\s_.-]*(?:scanner|scan|batch|phase|wave|magnet|sample|mri|mr|unit|part)?[\s_.-]*(?<!\d)\d{1,2}"
    r"|[\s_.-]+(?:[a-d]|i{1,3}|iv|\d(?:\.\d)?t|ge|siemens|philips|prisma|trio|tim ?trio|skyra|verio|allegra|achieva"
    r"|ingenia|signa|discovery|mr\d{3}|long|old|new))$",
    re.IGNORECASE,
)
#: Words that number sites rather than name a house.
NUMBERED = {"site", "center", "centre", "scanner", "hospital", "clinic", "location", "lab", "batch", "cohort", "group"}
WORDS = re.compile(r"\d+|\D+")
SUB = r"(?:(?i:sub(?:j|ject)?[-_ ]?)(?=\d)|(?i:sub)-)"  # what stands before the number of a person
OF_SUBJECT = re.compile(f"^{SUB}")
#: English, German, French, Spanish, Portuguese, Italian; then Chinese (both scripts), Japanese and Korean.
COLUMNS = {
    "subject": "participant subject subj sub id subid subjid subjectid participantid rid ptid eid pid guid code "
    "pseudonym record proband "
    "versuchsperson sujet sujeto sujeito soggetto participante partecipante 编号 編號 被试 被試 受试者 受試者 "
    "被験者 参加者 識別 피험자 대상자 참가자 번호",
    "site": "site center centre scanner location hospital institution institute clinic recruited recruitment city "
    "university facility batch zentrum standort klinik ort centro centre hopital ville sede ospedale clinica ciudad "
    "cidade citta 中心 站点 站點 机构 機構 医院 醫院 扫描仪 掃描儀 地点 地點 "
    "施設 機関 拠点 病院 大学 サイト スキャナ 기관 센터 병원 사이트",
    "label": "diagnosis dx diag label group grp patient status case condition disorder disease diagnose gruppe groupe "
    "krankheit erkrankung maladie enfermedad doenca malattia "
    "diagnostic diagnostico diagnosi grupo gruppo statut estado stato "
    "诊断 診斷 組別 组别 分组 分組 診断 群 疾患 患病 疾病 病名 类别 類別 진단 집단 그룹",
    "age": "age years alter edad idade eta 年龄 年齡 年齢 나이 연령",
    "sex": "sex gender geschlecht sexe genre sexo genero sesso genere 性别 性別 성별",
    "mean_fd": "motion movement bewegung kopfbewegung mouvement movimiento movimento 头动 頭動 頭部運動 体動 움직임",
}
CONTROLS = (
    "control controls healthy healthycontrol healthycontrols healthyvolunteer typical comparison typicallydeveloping "
    "typicallydevelopingcontrol neurotypical normal normalcontrol unaffected cognitivelynormal nonpatient nondemented "
    "negative none hc hcs td tc tdc nc cn nl hv nt ctrl ctl con cont "
    "kontrolle kontrollen kontrollgruppe gesund gesunde gesunder temoin temoins sain sains controle controles "
    "keine kein aucun aucune ninguno ninguna nenhum nenhuma nessuno nessuna "
    "sano sanos sana saudavel saudaveis controllo controlli sani "
    "对照 對照 健康 正常 健康对照 健康對照 正常对照 正常對照 对照组 對照組 健康对照组 正常对照组 健康人 "
    "健常 健常者 健常群 健常対照 対照 対照群 統制群 정상 정상군 정상인 대조 대조군 정상대조 정상대조군 "
    "건강대조군 건강인"
)
#: Words for controls that may as well say that something else is absent, or as usual.
ABSENT = "negative normal none keine kein aucun aucune ninguno ninguna nenhum nenhuma nessuno nessuna con"
#: In the name of a measure, which is no id though FreeSurfer calls it ``SubCortGrayVol``.
MEASURES = "cort cortex cortical gray grey vol volume thickness thickavg surfavg"
MALE = (
    "male man men boy mann mannlich maennlich homme masculin hombre masculino uomo maschio maschile varon homem "
    "mannelijk 男 男性 男生 男子 남 남자 남성"
)
FEMALE = (
    "female woman women girl frau weiblich femme feminin mujer femenino feminino mulher donna femmina femminile vrouw "
    "vrouwelijk 女 女性 女生 女子 여 여자 여성"
)
#: Fields of UK Biobank: ``31-0.0``, ``f.31.0.0``, ``p21003_i2``; the second number is the visit.
FIELD = re.compile(r"(?:f\.|x|p)?(\d+)[-._]i?(\d)(?:[._]\d+)?|p(\d+)", re.IGNORECASE)
FIELDS = {"31": "sex", "54": "site", "21003": "age", "25741": "mean_fd"}
WHOLE = re.compile(r"[a-z]+|\d+|[^\W\d_a-z]+")
#: Every word of a language without blanks: where a decoding gives some of them, it is the right one.
FOREIGN = {
    word
    for words in [*COLUMNS.values(), CONTROLS, MALE, FEMALE, "患者 患者群 病人 환자 환자군"]
    for word in words.split()
    if not word.isascii() and len(word) > 1
}


def canonical(name: object) -> tuple[str, ...]:
    """A name without case, punctuation, white space, invisible characters and leading zeros, for comparison.

    Letters are joined across what is taken out, numbers are not: "Site 1-1" is not "Site 11".

    >>> canonical("Site 0") == canonical("SITE0") == canonical("site_00 ") == canonical("Site\\u200b0.0")
    True
    >>> canonical("1") == canonical("1.0"), canonical("Site 1-1") == canonical("Site 11")
    (True, False)
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", str(name)).casefold())
    text = re.sub(r"(?<=\d)\.0+(?!\d)", "", "".join(c for c in text if unicodedata.category(c) != "Cf"))
    words: list[str] = []
    for part in "".join(" " if unicodedata.category(c)[0] in "PZC" else c for c in text).split():
        for word in WORDS.findall(part):
            if words and not word.isdecimal() and not words[-1].isdecimal():
                words[-1] += word
            else:
                words.append(str(int(word)) if word.isdecimal() else word)
    return tuple(words) or (str(name).strip(),)


def bare_id(subject: str) -> str:
    """An id without the ``sub-`` or ``Subject`` that some tables and files write and others leave out.

    >>> bare_id("sub-0042"), bare_id("Subject042"), bare_id("Sub_42"), bare_id("subtype")
    ('0042', '042', '42', 'subtype')
    """
    return OF_SUBJECT.sub("", subject)


def unpadded(subject: str) -> str:
    """A bare id without its leading zeros, if it is a number.

    >>> unpadded("sub-0042"), unpadded("000"), unpadded("0a")
    ('42', '0', '0a')
    """
    bare = bare_id(subject)
    return (bare.lstrip("0") or "0") if bare.isdecimal() else bare


def refuse_aliases(names: Iterable[object], kind: str) -> None:
    """Refuse names that differ in spelling only.

    >>> refuse_aliases(["NYU", "nyu ", "UM"], "site")
    Traceback (most recent call last):
    brainroam.errors.DataError: one site stands under several names: 'NYU' = 'nyu '; give each site one name ...
    """
    groups = defaultdict(list)
    for name in dict.fromkeys(map(str, names)):
        groups[canonical(name)].append(name)
    several = [group for group in groups.values() if len(group) > 1]
    aliases = [" = ".join(ascii(name) if _may_look_alike(name) else repr(name) for name in group) for group in several]
    if aliases:
        raise DataError(
            f"one {kind} stands under several names: {listed(aliases)}; give each {kind} one name in your table, or, "
            f"if they really are different, names that differ in more than case, punctuation and spaces"
        )


def shared_institutions(sites: Iterable[object]) -> dict[str, list[str]]:
    """Sites that look like scanners or batches of one institution, by what they share; nothing is sure about it.

    Sites that are numbered through (``S01`` to ``S20``, ``Site 1``) are not of one institution.

    >>> shared_institutions(["UM_1", "UM_2", "NYU", "UCLA 3T", "UCLA GE", "Site1", "Site2"])
    {'UM': ['UM_1', 'UM_2'], 'UCLA': ['UCLA 3T', 'UCLA GE']}
    >>> shared_institutions(["S01", "S02", "S03"]), shared_institutions(["Oslo1", "Oslo2"])
    ({}, {})
    """
    names = list(dict.fromkeys(map(str, sites)))
    institutions: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in names:
        institutions[canonical(_without_room(name))].append(name)
    return {
        _without_room(group[0]): group
        for stem, group in institutions.items()
        if 1 < len(group) < len(names) and len("".join(stem)) > 1 and "".join(stem) not in NUMBERED
    }


def institutions_by_name(sites: Iterable[object]) -> dict[str, str]:
    """The institution of each site: what its name shares with others, else the site itself.

    >>> institutions_by_name(["UM_1", "UM_2", "NYU"])
    {'UM_1': 'UM', 'UM_2': 'UM', 'NYU': 'NYU'}
    """
    shared = {site: house for house, group in shared_institutions(sites).items() for site in group}
    return {site: shared.get(site, site) for site in map(str, sites)}


def _without_room(name: str) -> str:
    return ROOM.sub("", name.strip()) or name


def site_names(site: Sequence[object] | np.ndarray | pd.Series, n_people: int) -> np.ndarray:
    """The site of everybody as text; an error where one is missing or stands under several names."""
    names = np.asarray(site, dtype=object)
    if names.shape != (n_people,):
        raise DataError(f"there are {n_people} people but {len(names)} sites; give one site name per person")
    missing = np.flatnonzero(pd.isna(names))
    if len(missing):
        raise DataError(f"the site is missing for person {listed(missing)}; give a name, or leave these people out")
    text = names.astype(str)
    refuse_aliases(text, "site")
    return text


def _may_look_alike(name: str) -> bool:
    """Whether two names could look alike in print: combining marks, invisible or compatibility characters."""
    return name != unicodedata.normalize("NFKC", name) or any(unicodedata.category(c) in ("Cf", "Zs") for c in name[1:])


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
    spoken = bool(words & ROLES[role]) or any(part in word for word in words for part in UNSPACED[role])
    return spoken or bool(visit_of_field(name, role))


def visit_of_field(name: str, role: str) -> str:
    """The visit of a field of UK Biobank that plays the role, ``0`` where none is named; nothing for other columns.

    >>> [visit_of_field(name, "age") for name in ("21003-2.0", "f.21003.2.0", "p21003_i3", "21003", "31-0.0")]
    ['2', '2', '3', '', '']
    """
    field = FIELD.fullmatch(name)
    if field is None or FIELDS.get(field[1] or field[3]) != role:
        return ""
    return field[2] or "0"


def _sets(words: str) -> tuple[set[str], set[str]]:
    """Words that stand alone, and those of languages without blanks."""
    every = set(map(plain, words.split()))
    latin = {word for word in every if word.isascii()}
    return latin, every - latin


ROLES = {role: _sets(words)[0] for role, words in COLUMNS.items()}
UNSPACED = {role: _sets(words)[1] for role, words in COLUMNS.items()}
CONTROL_WORDS = set(map(plain, CONTROLS.split()))
ABSENT_WORDS = set(ABSENT.split())
MEASURE_WORDS = set(MEASURES.split())
